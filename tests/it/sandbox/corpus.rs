//! The tools that people build and work with, from the first call to the last, in each mode of the sandbox. A tool that is
//! not installed here is left out.

use std::path::{Path, PathBuf};

use peacrab::sandbox::CommandLimits;

use super::degrade::{NO_NAMESPACES, without};
use super::{MB, Scene, have};

/// A script, which programs it needs, and its output.
struct Work {
    needs: &'static [&'static str],
    script: &'static str,
    output: &'static str,
}

const CORPUS: &[Work] = &[
    Work {
        needs: &["git"],
        script: "git init -q -b main repo && cd repo && git config user.name Crab && \
                 git config user.email crab@example.com && echo one > a && chmod +x a && git add a && \
                 git commit -q -m first && git branch other && echo two >> a && git commit -q -a -m second && \
                 git gc -q && git clone -q . ../again && cd ../again && git checkout -q HEAD~1 && git status -s && \
                 test -x a && cat a && git archive HEAD | tar tf -",
        output: "one\na\n",
    },
    Work {
        needs: &["tar", "gzip"],
        script: "mkdir -p d/e && echo x > d/e/f && chmod 750 d/e && chmod 640 d/e/f && \
                 touch -d '2020-01-02 03:04:05 UTC' d/e/f && tar czpf d.tgz d && mkdir out && \
                 tar xzpf d.tgz -C out && stat -c '%a %Y' out/d/e/f && stat -c %a out/d/e",
        output: "640 1577934245\n750\n",
    },
    Work {
        needs: &["cp", "install", "touch"],
        script: "echo x > f && chmod 640 f && touch -d @1500000000 f && cp -p f g && stat -c '%a %Y' g && \
                 cp -a f h && install -m 755 f bin && stat -c %a h bin && ln -s f link && touch -h -d @1 link && \
                 stat -c %Y link f && mv f moved && touch -r moved bin && stat -c %Y bin && chmod -R u=rwX,go= . && \
                 stat -c %a moved",
        output: "640 1500000000\n640\n755\n1\n1500000000\n1500000000\n600\n",
    },
    Work {
        needs: &["make", "cc"],
        script: "printf 'int main(void) { return 0; }\\n' > m.c && \
                 printf 'all: m\\n\\t./m && echo built\\nm: m.c\\n\\tcc -O2 -o m m.c\\n' > Makefile && \
                 make -s -j4 && touch -d @1 m && make -q || echo stale",
        output: "built\nstale\n",
    },
    Work {
        needs: &["python3"],
        script: "cat > p.py <<'END'\n\
                 import asyncio, concurrent.futures, json, mmap, os, pathlib, select, shutil, signal, socket, sqlite3\n\
                 import subprocess, tempfile, threading, time, zipfile\n\
                 os.umask(0o022)\n\
                 pathlib.Path('a').write_text('x'); os.chmod('a', 0o640); os.utime('a', (1, 2))\n\
                 shutil.copy2('a', 'b'); assert os.stat('b').st_mtime == 2 and os.stat('b').st_mode & 0o777 == 0o640\n\
                 fd = os.open('b', os.O_RDONLY); os.fchmod(fd, 0o600); os.utime(fd, (3, 4)); os.close(fd)\n\
                 assert os.stat('b').st_mtime == 4 and os.stat('b').st_mode & 0o777 == 0o600\n\
                 db = sqlite3.connect('t.db'); db.execute('create table t (x)'); db.commit()\n\
                 with zipfile.ZipFile('z.zip', 'w') as z: z.writestr('a', 'x')\n\
                 with concurrent.futures.ThreadPoolExecutor(4) as pool: print(sum(pool.map(abs, [-1, 2])))\n\
                 async def main():\n\
                 \x20   child = await asyncio.create_subprocess_exec('echo', 'child', stdout=subprocess.PIPE)\n\
                 \x20   print((await child.communicate())[0].decode().strip())\n\
                 asyncio.run(main())\n\
                 poll = select.epoll(); poll.close(); os.sched_getaffinity(0); mmap.mmap(-1, 4096).close()\n\
                 signal.setitimer(signal.ITIMER_REAL, 1); signal.setitimer(signal.ITIMER_REAL, 0)\n\
                 print('done')\n\
                 END\n\
                 python3 p.py",
        output: "3\nchild\ndone\n",
    },
    Work {
        needs: &["node"],
        script: "cat > n.mjs <<'END'\n\
                 import fs from 'node:fs'; import { execFileSync } from 'node:child_process';\n\
                 import { Worker } from 'node:worker_threads';\n\
                 fs.writeFileSync('a', 'x'); fs.chmodSync('a', 0o640); fs.utimesSync('a', 1, 2);\n\
                 fs.cpSync('a', 'b', { preserveTimestamps: true });\n\
                 console.log((fs.statSync('b').mode & 0o777).toString(8), fs.statSync('b').mtimeMs);\n\
                 console.log(execFileSync('echo', ['child']).toString().trim());\n\
                 new Worker('1 + 1', { eval: true }).on('exit', () => console.log('worker'));\n\
                 END\n\
                 node n.mjs",
        output: "640 2000\nchild\nworker\n",
    },
    Work {
        needs: &["go"],
        script: "mkdir g && cd g && printf 'module g\\n\\ngo 1.19\\n' > go.mod && \
                 printf 'package main\\nimport (\"fmt\"; \"os\"; \"os/exec\"; \"time\")\\nfunc main() {\\n\
                 os.WriteFile(\"a\", nil, 0600)\\nos.Chmod(\"a\", 0640)\\nos.Chtimes(\"a\", time.Unix(1, 0), time.Unix(2, 0))\\n\
                 out, _ := exec.Command(\"echo\", \"child\").Output()\\nc := make(chan string)\\n\
                 go func() { c <- string(out) }()\\nfmt.Print(<-c)\\n}\\n' > main.go && \
                 export GOCACHE=$PWD/cache GOFLAGS=-mod=mod GOTOOLCHAIN=local && go vet . && go build -o g . && ./g && \
                 stat -c '%a %Y' a",
        output: "child\n640 2\n",
    },
    Work {
        needs: &["cc", "ar"],
        script: "printf '#include <pthread.h>\\n#include <stdio.h>\\nstatic void *f(void *p) { return p; }\\n\
                 int main(void) { pthread_t t; pthread_create(&t, 0, f, 0); pthread_join(t, 0); puts(\"joined\"); }\\n' > t.c && \
                 cc -O2 -Wall -c t.c && ar rcs libt.a t.o && cc -o t libt.a -pthread && strip t && ./t",
        output: "joined\n",
    },
    Work {
        needs: &["rsync"],
        script: "mkdir s && echo x > s/f && touch -d @1500000000 s/f && chmod 600 s/f && rsync -a s/ t/ && \
                 stat -c '%a %Y' t/f",
        output: "600 1500000000\n",
    },
    Work {
        needs: &["find", "xargs", "sort", "awk"],
        script: "for i in 1 2 3; do echo $i > f$i; done; find . -name 'f*' -print0 | xargs -0 -P2 -n1 cat | sort | \
                 awk '{ s += $1 } END { print s }'; seq 20000 | sort -R | sort -n --parallel=2 | tail -1",
        output: "6\n20000\n",
    },
];

/// Runs all of it in folders of their own; returns the names of those that were there.
async fn run_corpus(mut scene: Scene) -> Vec<&'static str> {
    scene.sandbox.bounds = CommandLimits::new(2048 * MB, 256 * MB, 1024 * MB, 256);
    let mut tried = Vec::new();
    for (number, work) in CORPUS.iter().enumerate() {
        if !work.needs.iter().all(|program| have(program)) {
            continue;
        }
        let command =
            format!("mkdir work{number} && cd work{number} && {{ {}\n}} 2>&1", work.script);
        assert_eq!(scene.run(&command).await.well(), work.output, "{}", work.script);
        tried.push(work.needs[0]);
    }
    if let Some(toolchain) = toolchain() {
        scene.sandbox.read.push(toolchain.clone());
        let script = format!(
            "printf 'fn main() {{ std::thread::spawn(|| println!(\"built\")).join().unwrap() }}' > r.rs && \
             '{}/bin/rustc' -O r.rs 2>&1 && ./r",
            toolchain.display()
        );
        assert_eq!(scene.run(&script).await.well(), "built\n");
        tried.push("rustc");
    }
    scene.check();
    tried
}

/// Where the compiler of this test lives, unless that is a part of the system anyhow.
#[expect(clippy::disallowed_methods, reason = "a compiler is asked outside, where it may be")]
fn toolchain() -> Option<PathBuf> {
    let asked = std::process::Command::new("rustc").args(["--print", "sysroot"]).output().ok()?;
    let path = PathBuf::from(String::from_utf8(asked.stdout).ok()?.trim());
    path.join("bin/rustc")
        .exists()
        .then(|| path.canonicalize().ok())?
        .filter(|it| it != Path::new("/usr"))
}

#[tokio::test]
async fn ordinary_tools_work_with_namespaces() {
    let tried = run_corpus(Scene::new()).await;
    assert!(tried.contains(&"cp") && tried.contains(&"find"), "{tried:?}");
}

#[test]
fn ordinary_tools_work_without_namespaces() {
    let tried = without(NO_NAMESPACES, async || run_corpus(Scene::bare()).await);
    assert!(tried.contains(&"cp") && tried.contains(&"find"), "{tried:?}");
}
