//! What must work: ordinary commands, many of which other sandboxes and lists of patterns stop.

use super::{Scene, have};

#[tokio::test]
async fn runs_ordinary_commands() {
    let scene = Scene::new();
    scene.write("script.sh", "#!/bin/sh\necho \"ran with $1\"\n");
    std::fs::create_dir(scene.workspace().join("with spaces")).unwrap();
    scene.write("with spaces/a file.txt", "inside\n");
    let home = scene.workspace().display().to_string();
    let cases: &[(&str, &str)] = &[
        ("echo hello", "hello\n"),
        ("echo gone >/dev/null; ls /nowhere 2>/dev/null; echo done", "done\n"),
        ("echo to-stderr >&2", "to-stderr\n"),
        ("test \"$(date +%Y)\" -gt 2000 && echo now", "now\n"),
        ("printf '3\\n1\\n2\\n' | sort | head -1", "1\n"),
        ("ls *.sh", "script.sh\n"),
        ("cat <<END\none $((1 + 1))\nEND", "one 2\n"),
        ("cat <<'END'\n$(not run) `nor this`\nEND", "$(not run) `nor this`\n"),
        ("sh ./script.sh relative", "ran with relative\n"),
        ("chmod +x script.sh && ./script.sh executable", "ran with executable\n"),
        ("cat 'with spaces/a file.txt'", "inside\n"),
        (
            "cd 'with spaces' && cat \"a file.txt\" && pwd | sed 's/.*home//'",
            "inside\n/workspace/with spaces\n",
        ),
        ("echo 'https://example.com/?a=1&b=2#c'", "https://example.com/?a=1&b=2#c\n"),
        ("sleep 100 & kill $! && wait $! 2>/dev/null; echo $?", "143\n"),
        ("for i in 1 2 3; do echo $i & done; wait; echo all | tail -1", ""),
        ("echo x > /tmp/x && cat /tmp/x && rm /tmp/x", "x\n"),
        ("t=$(mktemp) && echo y > \"$t\" && cat \"$t\"", "y\n"),
        ("d=$(mktemp -d) && touch \"$d/a\" && ls \"$d\"", "a\n"),
        ("ls /usr | grep -c '^bin$'", "1\n"),
        ("ls / | grep -c '^usr$'", "1\n"),
        ("echo $HOME; cd ~ && pwd", ""),
        ("head -c 3 /dev/zero | wc -c", "3\n"),
        ("head -c 8 /dev/urandom | wc -c", "8\n"),
        ("echo z | cat /dev/stdin", "z\n"),
        ("echo out > /dev/stdout", "out\n"),
        ("mkfifo p && (echo through > p &) && cat p && rm p", "through\n"),
        ("mkdir -p a/b && mv a/b c && rmdir a && ls -d c && rmdir c", "c\n"),
        ("ln -s notes/plan.md link && cat link && rm link", "a plan"),
        ("ln notes/plan.md hard && cat hard && rm hard", "a plan"),
        ("echo 'a b c' | awk '{print $2}'", "b\n"),
        ("echo abc | sed 's/b/x/'", "axc\n"),
        ("find . -name plan.md", "./notes/plan.md\n"),
        ("tar cf t.tar notes && tar tf t.tar | tail -1 && rm t.tar", "notes/plan.md\n"),
        ("echo ä ö 漢 | wc -m", "6\n"),
        ("locale 2>/dev/null | grep -c UTF-8 >/dev/null || true; echo $LANG", "C.UTF-8\n"),
        ("id -u >/dev/null && whoami >/dev/null; echo $?", ""),
        ("nproc >/dev/null && echo ok", "ok\n"),
        ("ps -e >/dev/null 2>&1 || true; echo ok", "ok\n"),
        ("trap 'echo trapped' TERM; kill -TERM $$; sleep 0.01; echo after", "trapped\nafter\n"),
        ("(exit 3); echo $?", "3\n"),
        ("yes | head -2", "y\ny\n"),
        // As a build does: far more processes than numbers for them, one after another.
        (
            "i=0; while [ $i -lt 1200 ]; do /bin/true; i=$((i + 1)); done; yes | head -1 | cat | cat",
            "y\n",
        ),
        ("true && false || echo or", "or\n"),
        ("timeout 5 echo in time", "in time\n"),
        ("env | cut -d= -f1 | sort | tr '\\n' ' '", "HOME LANG PATH PWD TERM TMPDIR "),
    ];
    for (command, expected) in cases {
        let out = scene.run(command).await;
        let out = out.well();
        if !expected.is_empty() {
            assert_eq!(out, *expected, "{command}");
        }
    }
    assert_eq!(scene.run("echo $HOME; cd ~ && pwd").await.well(), format!("{home}\n{home}\n"));
    scene.check();
}

#[tokio::test]
async fn runs_what_other_shells_understand() {
    // Without bash, the same is asked of sh in its own words, above.
    if !have("bash") {
        return;
    }
    let scene = Scene::new();
    for (command, expected) in [
        ("bash -c 'cat <<< here-string'", "here-string\n"),
        ("bash -c 'sleep 100 & kill %1; wait %1; echo $?'", "143\n"),
        ("bash -c 'cat <(echo substituted)'", "substituted\n"),
        ("bash -c 'echo {a,b}{1,2}'", "a1 a2 b1 b2\n"),
        ("bash -c 'a=(1 2 3); echo ${#a[@]}'", "3\n"),
    ] {
        assert_eq!(scene.run(command).await.well(), expected, "{command}");
    }
}

#[tokio::test]
async fn runs_git() {
    // Without git there is nothing that could be run.
    if !have("git") {
        return;
    }
    let scene = Scene::new();
    let script = "set -e\n\
        git init -q -b main repo && cd repo\n\
        git config user.name Crab && git config user.email crab@example.com\n\
        echo one > a && git add a && git commit -q -m first\n\
        git init -q --bare -b main ../remote.git && git remote add origin ../remote.git\n\
        git push -q origin main && git log --oneline | wc -l\n\
        git clone -q ../remote.git ../again && cat ../again/a\n";
    assert_eq!(scene.run(script).await.well(), "1\none\n");
    scene.check();
}

#[tokio::test]
async fn runs_python() {
    // Without Python there is nothing that could be run.
    if !have("python3") {
        return;
    }
    let scene = Scene::new();
    for (command, expected) in [
        ("python3 -c 'print(sum(range(10)))'", "45\n"),
        (
            "echo '{\"a\": [1]}' | python3 -c 'import json,sys; print(json.load(sys.stdin)[\"a\"])'",
            "[1]\n",
        ),
        (
            "python3 -c 'from multiprocessing import Pool\nwith Pool(2) as p: print(p.map(abs, [-1, -2]))'",
            "[1, 2]\n",
        ),
        (
            "python3 -c 'import subprocess; print(subprocess.check_output([\"echo\", \"x\"]).decode(), end=\"\")'",
            "x\n",
        ),
        (
            "python3 -c 'import tempfile; f = tempfile.NamedTemporaryFile(); print(f.name.startswith(\"/tmp\"))'",
            "True\n",
        ),
        (
            "python3 -c 'import threading; t = threading.Thread(target=print, args=(\"t\",)); t.start(); t.join()'",
            "t\n",
        ),
    ] {
        assert_eq!(scene.run(command).await.well(), expected, "{command}");
    }
}

#[tokio::test]
async fn reads_what_it_is_fed() {
    let scene = Scene::new();
    assert_eq!(
        scene.run_with("read a; read b; echo \"$b $a\"", "one\ntwo\n").await.well(),
        "two one\n"
    );
    let long = "x".repeat(3_000_000);
    assert_eq!(scene.run_with("wc -c", &long).await.well().trim(), "3000000");
    // One that does not read it is none the worse for it.
    assert_eq!(scene.run_with("echo done", &long).await.well(), "done\n");
}
