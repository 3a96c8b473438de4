//! The cost of the gateway: listening while nobody is there, then 200 idle tabs, then 50 turns at once whose model
//! streams slowly, each seen by a page of its own.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use super::measure::{Result, field};
use super::{Daemon, IDLE, SETTLE, START_MAX, row};

const TABS: usize = 200;
const STREAMS: usize = 50;

/// The pause between two words of the model.
const WORD_EVERY: Duration = Duration::from_millis(200);

/// A model that never ends its answer is given up.
const WORDS_MAX: usize = 3_000;

/// The time for all answers to come, once the model ends.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// Within this time each tab is sent the comment that keeps its connection open, which is due every 25 s.
const COMMENTS: Duration = Duration::from_secs(30);

const TOKEN: &str = "token-of-the-bench-0123456789";

pub(super) fn measure() -> Result<()> {
    let model = SlowModel::start()?;
    let (off, _) = Daemon::start_with(&config(&model, None))?;
    sleep(SETTLE);
    let (without, quiet) = (anonymous(&off)?, off.idle_switches()?);
    drop(off);
    let gateway = free_address()?;
    let (mut daemon, _) = Daemon::start_with(&config(&model, Some(gateway)))?;
    sleep(SETTLE);
    let alone = anonymous(&daemon)?;
    row("gateway off: RssAnon, switches", Ok(format!("{without} kB, {quiet}")));
    row("gateway on, nobody there: RssAnon", Ok(more(alone, without)));
    row("gateway on: context switches", daemon.idle_switches());

    let tabs = (0..TABS).map(|tab| open(gateway, &format!("tab-{tab}")));
    let tabs: Vec<_> = tabs.collect::<Result<_>>()?;
    sleep(SETTLE);
    let with_tabs = anonymous(&daemon)?;
    row(&format!("{TABS} idle tabs: RssAnon"), Ok(more(with_tabs, alone)));
    row(&format!("{TABS} idle tabs: context switches"), daemon.switches_within(COMMENTS));

    let pages: Vec<_> =
        (0..STREAMS).map(|page| Page::open(gateway, page)).collect::<Result<_>>()?;
    for page in 0..STREAMS {
        say(gateway, &name_of(page), &format!("bench-message-{page}"))?;
    }
    wait_for("a draft of each stream", || pages.iter().all(|page| page.drafts() > 1))?;
    let before = pages.iter().map(Page::drafts).sum::<usize>();
    let switches = daemon.idle_switches();
    let drafts = pages.iter().map(Page::drafts).sum::<usize>() - before;
    row(&format!("{STREAMS} streams more: RssAnon"), Ok(more(anonymous(&daemon)?, with_tabs)));
    row(&format!("{STREAMS} streams: context switches"), switches);
    let each = drafts as f64 / IDLE.as_secs_f64() / STREAMS as f64;
    row(&format!("{STREAMS} streams: drafts of each"), Ok(format!("{each:.1} /s")));
    row(&format!("{STREAMS} streams: turns at the model"), Ok(model.at_once().to_string()));
    model.ends.store(true, Ordering::Relaxed);
    let came = wait_for("all answers", || pages.iter().all(Page::is_answered));
    let answered = pages.iter().filter(|page| page.is_answered()).count();
    row(&format!("{STREAMS} streams: answers that came"), Ok(answered.to_string()));
    came?;
    row("after the answers: RssAnon", Ok(more(anonymous(&daemon)?, with_tabs)));
    drop(tabs);
    row("SIGTERM → gone, with open pages", daemon.stop().map(super::ms));
    Ok(())
}

fn config(model: &SlowModel, gateway: Option<SocketAddr>) -> String {
    let mut config = format!(
        "[agent]\nturns_max = 128\n[providers.main]\ntype = \"openai\"\nmodel = \"slow\"\n\
         api_key = \"key-of-the-bench\"\nbase_url = \"http://{}/v1\"\ncontext = 100000\n",
        model.address
    );
    if let Some(address) = gateway {
        let section =
            format!("[gateway]\nlisten = \"{address}\"\n[api_tokens.bench]\ntoken = \"{TOKEN}\"\n");
        config.push_str(&section);
    }
    config
}

/// The anonymous memory in kB.
fn anonymous(daemon: &Daemon) -> Result<u64> {
    field(&daemon.proc().join("status"), "RssAnon")
}

fn more(now: u64, before: u64) -> String {
    format!("{:+} kB", i128::from(now) - i128::from(before))
}

fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

fn name_of(page: usize) -> String {
    format!("stream-{page}")
}

fn wait_for(what: &str, is_so: impl Fn() -> bool) -> Result<()> {
    let begun = Instant::now();
    while !is_so() {
        if begun.elapsed() > ANSWER_MAX {
            return Err(format!("no {what} in {ANSWER_MAX:?}").into());
        }
        sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Sends a request, and returns the connection once the response has begun.
fn request(gateway: SocketAddr, head: &str, body: &str) -> Result<BufReader<TcpStream>> {
    let begun = Instant::now();
    let mut stream = loop {
        match TcpStream::connect(gateway) {
            Ok(stream) => break stream,
            Err(error) if begun.elapsed() > START_MAX => return Err(error.into()),
            Err(_) => sleep(Duration::from_millis(10)),
        }
    };
    let mut request =
        format!("{head} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n");
    if !body.is_empty() {
        write!(request, "Content-Length: {}\r\nConnection: close\r\n", body.len())?;
    }
    stream.write_all(format!("{request}\r\n{body}").as_bytes())?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    match line.starts_with("HTTP/1.1 20") {
        true => Ok(reader),
        false => Err(format!("{head}: {line}").into()),
    }
}

/// A tab that shows a session.
fn open(gateway: SocketAddr, session: &str) -> Result<BufReader<TcpStream>> {
    request(gateway, &format!("GET /sessions/{session}/stream"), "")
}

fn say(gateway: SocketAddr, session: &str, id: &str) -> Result<()> {
    let body = format!("{{\"session\":\"{session}\",\"id\":\"{id}\",\"text\":\"hello\"}}");
    request(gateway, "POST /messages", &body).map(drop)
}

/// A page that reads what it is sent.
struct Page {
    drafts: Arc<AtomicUsize>,
    is_answered: Arc<AtomicBool>,
}

impl Page {
    fn open(gateway: SocketAddr, page: usize) -> Result<Self> {
        let lines = open(gateway, &name_of(page))?.lines();
        let this = Self { drafts: Arc::default(), is_answered: Arc::default() };
        let (drafts, is_answered) = (Arc::clone(&this.drafts), Arc::clone(&this.is_answered));
        // It ends with its connection.
        spawn(move || {
            for line in lines.map_while(std::io::Result::ok) {
                drafts.fetch_add(usize::from(line == "event: draft"), Ordering::Relaxed);
                if line.starts_with("data: ") && line.contains("\"from\":\"bot\"") {
                    is_answered.store(true, Ordering::Relaxed);
                }
            }
        });
        Ok(this)
    }

    fn drafts(&self) -> usize {
        self.drafts.load(Ordering::Relaxed)
    }

    fn is_answered(&self) -> bool {
        self.is_answered.load(Ordering::Relaxed)
    }
}

/// A model API that says a word every now and then, until it is told to end.
struct SlowModel {
    address: SocketAddr,
    ends: Arc<AtomicBool>,
    at_once: Arc<AtomicUsize>,
}

impl SlowModel {
    fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let this =
            Self { address: listener.local_addr()?, ends: Arc::default(), at_once: Arc::default() };
        let (ends, at_once) = (Arc::clone(&this.ends), Arc::clone(&this.at_once));
        // It ends with the bench.
        spawn(move || {
            for stream in listener.incoming().flatten() {
                let (ends, at_once) = (Arc::clone(&ends), Arc::clone(&at_once));
                spawn(move || answer(stream, &ends, &at_once).ok());
            }
        });
        Ok(this)
    }

    /// Turns that it answers at this moment.
    fn at_once(&self) -> usize {
        self.at_once.load(Ordering::Relaxed)
    }
}

fn answer(stream: TcpStream, ends: &AtomicBool, at_once: &AtomicUsize) -> Result<()> {
    let mut reader = BufReader::new(stream);
    let (mut line, mut length) = (String::new(), 0);
    let mut is_question = false;
    while reader.read_line(&mut line)? > 2 {
        is_question |= line.starts_with("POST ");
        let (name, value) = line.split_once(':').unwrap_or_default();
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse()?;
        }
        line.clear();
    }
    let mut stream = reader.get_ref().try_clone()?;
    if !is_question {
        stream.write_all(
            b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        )?;
        return Ok(());
    }
    reader.read_exact(&mut vec![0; length])?;
    stream.write_all(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n",
    )?;
    at_once.fetch_add(1, Ordering::Relaxed);
    for word in 0..WORDS_MAX {
        if ends.load(Ordering::Relaxed) {
            break;
        }
        let delta = format!("{{\"content\":\"word{word} \"}}");
        piece(&mut stream, &delta, "null")?;
        sleep(WORD_EVERY);
    }
    piece(&mut stream, "{}", "\"stop\"")?;
    stream.write_all(b"data: [DONE]\n\n")?;
    at_once.fetch_sub(1, Ordering::Relaxed);
    Ok(())
}

fn piece(stream: &mut TcpStream, delta: &str, finish: &str) -> Result<()> {
    let choice = format!("{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}");
    Ok(write!(stream, "data: {{\"choices\":[{choice}]}}\n\n")?)
}
