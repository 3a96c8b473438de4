//! Files and questions on their whole way: from Telegram to the model, and back.

use std::fs;

use serde_json::{Value, json};

use super::models::{answer, tool_call};
use crate::support::binary::{Daemon, ProgramFixture, home, model, now, said};
use crate::support::bot_api::line::{ADA, Line};
use crate::support::bot_api::{BotApi, Fault, SentFile};
use crate::support::model_api::{ModelApi, Platform};

struct Stage {
    api: BotApi,
    main: ModelApi,
    fixture: ProgramFixture,
    _daemon: Daemon,
}

impl Stage {
    async fn new() -> Self {
        let (api, main) = (BotApi::start().await, ModelApi::start(Platform::OpenAi).await);
        let fixture = ProgramFixture::new(&(model("main", &main) + &home(&api)));
        let daemon = fixture.daemon().await;
        Self { api, main, fixture, _daemon: daemon }
    }

    /// What Ada was answered, when the model says this.
    async fn hears(&self, words: &str) {
        self.api.wait_for_words(ADA.id, words).await;
    }

    /// What the model was told last.
    fn told(&self) -> String {
        self.main.requests().last().unwrap()["messages"].to_string()
    }

    /// The only file of the downloads, and its path.
    fn in_downloads(&self) -> (String, Vec<u8>) {
        let home = self.fixture.home();
        let month = fs::read_dir(home.join("downloads")).unwrap().next().unwrap().unwrap().path();
        let file = fs::read_dir(month).unwrap().next().unwrap().unwrap().path();
        let path = file.strip_prefix(&home).unwrap().to_str().unwrap().to_owned();
        (path, fs::read(file).unwrap())
    }
}

fn document(name: &str) -> Value {
    json!({ "file_id": "f1", "file_unique_id": "u1", "file_name": name, "file_size": 5 })
}

fn sent_file(caption: &str) -> Line {
    now(Line::private(&ADA, "")).media("document", document("plan.txt")).with("caption", caption)
}

#[tokio::test]
async fn a_file_that_came_lies_in_the_workspace_and_can_be_sent_back() {
    let stage = Stage::new().await;
    stage.api.keep_file("f1", b"crabs");
    stage.main.reply(answer("I have it."));
    stage.api.say(&sent_file("keep this"));
    stage.hears("I have it.").await;
    let (path, bytes) = stage.in_downloads();
    assert_eq!(bytes, b"crabs");
    let told = stage.told();
    assert!(told.contains(&path) && told.contains("keep this"), "{told}");

    stage.api.fail("sendDocument", 1, &Fault::TooMany { after: 1 });
    stage.main.reply(tool_call("message", &json!({ "text": "**Here**", "files": [path] })));
    stage.main.reply(answer("Done."));
    stage.api.say(&said(&ADA, "send it back"));
    stage.hears("Done.").await;
    let sent = stage.api.wait_for_words(ADA.id, "Here").await;
    let name = sent.file.as_ref().unwrap().name.clone();
    let expected = SentFile { field: "document", name, bytes };
    assert_eq!((sent.html.as_deref(), sent.file), (Some("<b>Here</b>"), Some(expected)));
    let files = stage.api.sent().iter().filter(|sent| sent.file.is_some()).count();
    assert_eq!(files, 1);
    stage.main.finish();
}

#[tokio::test]
async fn a_file_of_which_nobody_knows_whether_it_arrived_is_marked() {
    let stage = Stage::new().await;
    stage.main.reply(tool_call("write_file", &json!({ "path": "a.md", "content": "x" })));
    stage.main.reply(tool_call("message", &json!({ "text": "Here", "files": ["a.md"] })));
    stage.main.reply(answer("Done."));
    stage.api.fail("sendDocument", 1, &Fault::CutAfter);
    stage.api.say(&said(&ADA, "make it"));
    stage.hears("(perhaps sent twice)").await;
    stage.hears("Done.").await;
    let files: Vec<_> = stage.api.sent().into_iter().filter(|sent| sent.file.is_some()).collect();
    assert_eq!(files.len(), 2, "{files:?}");
    assert_eq!(files[1].text, "(perhaps sent twice)\nHere");
    stage.main.finish();
}

#[tokio::test]
async fn a_file_that_telegram_does_not_give_is_told_to_the_model() {
    let stage = Stage::new().await;
    stage.api.keep_file("f1", &vec![0; (20 << 20) + 1]);
    stage.main.reply(answer("Too large."));
    stage.api.say(&sent_file("look"));
    stage.hears("Too large.").await;
    let told = stage.told();
    assert!(told.contains("20 MB") && told.contains("plan.txt"), "{told}");
    stage.main.finish();
}

#[tokio::test]
async fn what_is_pressed_is_what_is_said() {
    let stage = Stage::new().await;
    let question = json!({ "text": "Which colour?", "choices": ["red", "blue"] });
    stage.main.reply(tool_call("message", &question));
    stage.main.reply(answer("I have asked."));
    stage.main.reply(answer("Blue it is."));
    stage.api.say(&said(&ADA, "paint it"));
    stage.hears("I have asked.").await;
    let asked = stage.api.wait_for_words(ADA.id, "Which colour?").await;
    assert_eq!(asked.buttons, [["red", "blue"]]);
    let query = stage.api.press(&ADA, asked.id, "blue");
    assert_eq!(stage.api.wait_for_answer(&query).await, None);
    stage.hears("Blue it is.").await;
    assert!(stage.told().contains("blue"), "{}", stage.told());
    let decided = stage.api.wait_for_words(ADA.id, "→ blue (Ada)").await;
    assert_eq!((decided.id, decided.buttons.len()), (asked.id, 0));
    stage.main.finish();
}
