//! The daemon is killed before and after each of its commits while a turn waits for a person: to be
//! allowed a call, or to be told what it asked. What the person does about it, they do once.

use std::fs;
use std::time::Duration;

use peacrab::types::message::{DeliveryId, Press};

use super::child::{ACT, ACTS, Asks, At, Kill, When};
use super::{KNOWING, Scene, UNKNOWING, verdict};
use crate::support::platform::{Line, Platform, PlatformBehavior, ReceivedMessage};

const WRITE: &str = "append one to log.md";
const ASK: &str = "ask Which: red, blue";

/// Long enough for a daemon to begin, and short for the test.
const EXPIRES: Duration = Duration::from_millis(100);

/// What the person does as soon as something was asked.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reaction {
    None,
    Says(&'static [&'static str]),
    /// Replies to the question.
    Quotes(&'static str),
    /// Presses one of its buttons.
    Presses(usize),
}

impl Reaction {
    /// Happens if something was asked and it has not happened before.
    pub(super) fn happens(&self, platform: &Platform) {
        if matches!(self, Self::None) {
            return;
        }
        let got = platform.got();
        let Some(asked) = got.iter().find(|got| !got.choices.is_empty()) else { return };
        if platform.said().len() > 1 {
            return;
        }
        let line = |text: &str| Line {
            chat: asked.chat.clone(),
            text: text.to_owned(),
            ..Line::default()
        };
        match self {
            Self::None => {}
            Self::Says(texts) => texts.iter().for_each(|text| platform.hears(&line(text))),
            Self::Quotes(text) => {
                let quotes = Some(asked.text.clone());
                platform.hears(&Line { quotes, ..line(text) });
            }
            Self::Presses(choice) => {
                let press = Press { delivery: DeliveryId(asked.delivery), choice: *choice };
                platform.hears(&Line { press: Some(press), ..line("") });
            }
        }
    }
}

/// What must have come of it, wherever it was killed.
struct Case {
    reaction: Reaction,
    /// Of the one call.
    call: &'static str,
    /// Of what was asked.
    ask: &'static str,
    /// Of what was said, in order.
    outcomes: &'static [&'static str],
    /// What the last answer says.
    told: &'static str,
}

const ALLOWED: Case = Case {
    reaction: Reaction::Presses(0),
    call: "done",
    ask: "settled",
    outcomes: &["answered", "obeyed"],
    told: "Added to log.md",
};
const DENIED: Case = Case { call: "denied", told: "did not allow it", ..ALLOWED };
const STOPPED: Case = Case {
    reaction: Reaction::Says(&["/stop", "hello again"]),
    call: "skipped",
    ask: "cancelled",
    outcomes: &["stopped", "obeyed", "answered"],
    told: "hello again",
};
const UNANSWERED: Case = Case {
    reaction: Reaction::None,
    call: "denied",
    ask: "expired",
    outcomes: &["answered"],
    told: "nobody who may allow it answered in time",
};
const ANSWERED: Case = Case {
    reaction: Reaction::Presses(1),
    call: "done",
    ask: "settled",
    outcomes: &["answered", "answered"],
    told: "blue",
};

const APPROVALS: &[Case] = &[
    ALLOWED,
    Case { reaction: Reaction::Presses(1), ..ALLOWED },
    Case { reaction: Reaction::Says(&["/approve 1"]), ..ALLOWED },
    Case { reaction: Reaction::Presses(2), ..DENIED },
    Case { reaction: Reaction::Says(&["/deny 1"]), ..DENIED },
    UNANSWERED,
    STOPPED,
];

const QUESTIONS: &[Case] = &[
    ANSWERED,
    Case { reaction: Reaction::Quotes("blue"), ..ANSWERED },
    Case { reaction: Reaction::Says(&["blue"]), ..ANSWERED },
    Case { call: "failed", told: "Nobody answered in time", ..UNANSWERED },
    STOPPED,
    Case { reaction: Reaction::Says(&["/new", "hello again"]), ..STOPPED },
];

impl Case {
    /// Kills before or after each commit in turn, each in a world of its own.
    fn kill_at_each_commit(
        &self,
        manners: PlatformBehavior,
        when: When,
        (said, tool): (&str, &str),
    ) {
        for commit in 1.. {
            let mut scene = Scene::with_said(manners, &[("1", said)]);
            scene.reaction = self.reaction;
            scene.asks = Asks {
                approve: tool != "ask_question",
                time: matches!(self.reaction, Reaction::None).then_some(EXPIRES),
                ..Asks::default()
            };
            let killed = scene.run(Kill { at: At::Commit(commit), when });
            scene.bring_to_end();
            self.judge(&scene, tool, &format!("{:?}, commit {commit}", self.reaction));
            if !killed {
                assert!(commit > 8, "there should be more than {commit} commits");
                return;
            }
        }
    }

    fn judge(&self, scene: &Scene, tool: &str, at: &str) {
        let look = |sql: &str| verdict::look(&scene.home(), sql);
        assert_eq!(look("SELECT outcome FROM inbound ORDER BY id"), self.outcomes, "{at}");
        assert_eq!(look("SELECT state FROM asks"), [self.ask], "{at}");
        assert_eq!(look("SELECT CAST(count(*) AS TEXT) FROM turns WHERE suspended"), ["0"], "{at}");
        let got = scene.platform().got();
        let asked: Vec<_> = got.iter().filter(|got| !got.choices.is_empty()).collect();
        assert!(asked.iter().all(|got| got.delivery == asked[0].delivery), "{at}: {got:?}");
        let is_answer =
            |got: &&ReceivedMessage| got.delivery != 0 && got.text.contains("(This is a rehearsal");
        let answer = got.iter().find(is_answer).map(|got| got.delivery);
        assert!(got.iter().filter(is_answer).all(|got| Some(got.delivery) == answer), "{at}");
        let answer = got.iter().filter(|got| Some(got.delivery) == answer);
        let answer: String = answer.map(|got| got.text.as_str()).collect();
        assert!(answer.contains(self.told), "{at}: {got:?}");
        let acts = fs::read_to_string(scene.home().join(ACTS)).unwrap_or_default();
        if tool != "act" {
            assert_eq!(verdict::states(&scene.home(), tool), [self.call], "{at}");
            let log = fs::read_to_string(scene.log()).unwrap_or_default();
            let made = tool == "append_file" && self.call == "done";
            assert_eq!(log, if made { "one\n" } else { "" }, "{at}");
            scene.judge();
        } else if self.call == "done" {
            // Killed while it was made: nobody knows, and so it is not made again.
            match (&*verdict::states(&scene.home(), tool)[0], &*acts) {
                ("done", "acted\n") | ("interrupted", "acted\n" | "") => {}
                other => panic!("{at}: {other:?}"),
            }
        } else {
            assert_eq!(
                (acts.as_str(), verdict::states(&scene.home(), tool)),
                ("", vec![self.call.to_owned()]),
                "{at}"
            );
        }
    }
}

fn approvals(when: When) {
    for case in APPROVALS {
        case.kill_at_each_commit(KNOWING, when, (WRITE, "append_file"));
    }
}

fn questions(when: When) {
    for case in QUESTIONS {
        case.kill_at_each_commit(KNOWING, when, (ASK, "ask_question"));
    }
}

#[test]
fn a_call_is_made_once_if_it_was_allowed_after_a_kill_before_any_commit() {
    approvals(When::Before);
}

#[test]
fn a_call_is_made_once_if_it_was_allowed_after_a_kill_after_any_commit() {
    approvals(When::After);
}

#[test]
fn an_answer_is_never_lost_after_a_kill_before_any_commit() {
    questions(When::Before);
}

#[test]
fn an_answer_is_never_lost_after_a_kill_after_any_commit() {
    questions(When::After);
}

/// What acts outside is done when it was allowed, and not a second time.
#[test]
fn what_was_allowed_to_act_acts_once_after_a_kill_at_any_commit() {
    let allowed = Case { told: "", ..ALLOWED };
    for when in [When::Before, When::After] {
        for case in [&allowed, &Case { reaction: Reaction::Says(&["/deny 1"]), ..DENIED }] {
            case.kill_at_each_commit(KNOWING, when, (ACT, "act"));
        }
    }
}

/// Where the platform cannot be asked what it has, what may be asked twice is marked.
#[test]
fn what_may_be_asked_twice_after_a_kill_at_any_commit_is_marked() {
    for when in [When::Before, When::After] {
        ALLOWED.kill_at_each_commit(UNKNOWING, when, (WRITE, "append_file"));
        for case in [&ANSWERED, &QUESTIONS[2], &QUESTIONS[3]] {
            case.kill_at_each_commit(UNKNOWING, when, (ASK, "ask_question"));
        }
    }
}
