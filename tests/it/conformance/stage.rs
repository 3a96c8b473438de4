//! One vocabulary for what happens on a platform. Each platform's stand-in is driven through it.

use std::sync::Arc;
use std::time::Duration;

use peacrab::channels::Channel;
use tokio::net::TcpListener;

/// Ada owns the bot, Bob is let in, Eve is a stranger, Robot is another bot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Ada,
    Bob,
    Eve,
    Robot,
}

/// Where something is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Private(Who),
    Group,
    /// Of the group.
    Thread,
    /// Slack's for assistants: a thread of a private chat.
    #[cfg_attr(not(feature = "slack"), expect(dead_code, reason = "no other platform has it"))]
    Pane(Who),
    Elsewhere,
}

/// A message of the bot as people see it now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) id: String,
    pub(crate) place: Place,
    /// The message that it visibly answers: by a reply, or in the thread of its own that it opened.
    pub(crate) answers: Option<String>,
    /// Without markup.
    pub(crate) text: String,
    /// What stands on them.
    pub(crate) buttons: Vec<String>,
    pub(crate) file: Option<(String, Vec<u8>)>,
    pub(crate) edits: usize,
}

/// What goes wrong with a call, as all platforms know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// 429, to be waited for one second.
    RateLimitedWith,
    /// 429 and not a word of when.
    RateLimitedWithout,
    /// 502.
    ServerError,
    /// No answer, and no effect.
    Hang,
    /// The call takes effect, and the connection is cut.
    CutAfterAcceptance,
    /// The call takes effect, and its answer is nonsense.
    Garbage,
    /// The call takes effect, and so long.
    Slow(Duration),
}

/// A call that may fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Send,
    Edit,
    /// Sends a file.
    Upload,
}

/// Which bot of the platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bot {
    First,
    Another,
}

/// A platform with its people, and a bot in it.
pub(crate) trait Stage: Sized {
    /// Whether it tells the bot of deletions.
    const TELLS_OF_DELETIONS: bool;
    /// Whether it can be asked for a message of which nobody knows whether it arrived.
    const CAN_BE_ASKED: bool;
    /// Whether its threads are so small that all in them is said to who takes part.
    const FOLLOWS_THREADS: bool;
    /// Of the first bot.
    const TOKENS: &'static [&'static str];
    /// Where it shows that a bot works.
    const TYPES_IN: Place;

    async fn start() -> Self;
    async fn start_at(listener: TcpListener) -> Self;
    /// Of another bot.
    async fn start_another() -> Self;

    /// `http://` and where it listens.
    fn base(&self) -> String;
    /// The real adapter of a bot of the stand-in at `base`.
    fn adapter(base: &str, bot: Bot) -> Arc<dyn Channel>;
    fn id(who: Who) -> String;

    /// Words to the bot, where others are, too.
    fn mention(words: &str) -> String;
    /// Gives the message's id.
    fn say(&self, place: Place, by: Who, words: &str) -> String;
    fn send_file(&self, by: Who, file: (&str, &[u8]), words: &str);
    fn edit(&self, place: Place, by: Who, message: &str, words: &str);
    /// Somebody changes what they said two hours ago.
    fn edit_old(&self, place: Place, by: Who, words: &str);
    fn delete(&self, place: Place, message: &str);
    /// Tells what was said last once more.
    fn repeat(&self);

    /// What a button says to the bot.
    fn button(&self, seen: &Seen, label: &str) -> String;
    /// Gives the press's id. The button may be gone by now.
    fn press(&self, by: Who, seen: &Seen, button: &str) -> String;
    /// What whoever pressed is told, and nobody else; none yet.
    fn told(&self, by: Who, press: &str) -> Option<String>;

    /// All that the bot said and that is still there, in order.
    fn seen(&self) -> Vec<Seen>;
    /// Signs that it works.
    fn typings(&self) -> usize;
    /// Whether the bot put a sign at a message.
    fn reacted(&self, place: Place, message: &str) -> bool;
    /// What of its messages would have pinged people.
    fn pings(&self) -> Vec<String>;
    /// What the bot did wrong on its link.
    fn offences(&self) -> Vec<String>;

    /// The next so many calls come to that.
    fn fail(&self, act: Act, times: usize, trouble: Trouble);
    /// No call comes to anything any more.
    fn heal(&self);
    /// How often it was called.
    fn calls(&self, act: Act) -> usize;
    fn drop_link(&self);
    /// The next time that a link begins, the platform takes the connection and never says that the link
    /// goes.
    fn ignore_handshake(&self);
    /// The link stands, and not a byte comes any more.
    fn silence_link(&self);
    fn revoke_token(&self);
}
