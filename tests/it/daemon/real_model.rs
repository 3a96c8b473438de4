//! A real, small model on a platform, where `.ci/model` has started one and names it: each message gets one answer or an
//! explanation. Without one there is nothing to try.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::support::binary::{ProgramFixture, home, said};
use crate::support::bot_api::BotApi;
use crate::support::bot_api::line::ADA;

/// The variable that names the base URL of the model's server.
const MODEL: &str = "PEACRAB_TEST_MODEL";

/// What people say; the terminal's part says more.
const MESSAGES: [&str; 4] = [
    "Hello! Who are you?",
    "Please remember that my cat is called Minka.",
    "What is my cat called?",
    "Write a file notes/list.md with the words milk and bread.",
];

/// A small model on two cores takes minutes for its first prompt.
const MESSAGE_TIME_MAX: Duration = Duration::from_secs(600);

#[tokio::test]
async fn a_real_model_answers_each_message_on_a_platform() {
    #[expect(clippy::disallowed_methods, reason = "how the script tells where its model is")]
    let Ok(base_url) = std::env::var(MODEL) else { return };
    let api = BotApi::start().await;
    let config = format!(
        "[agent]\nsteps_max = 4\n\n[heartbeat]\nevery_minutes = 0\n\n[providers.main]\ntype = \"openai\"\n\
         model = \"real\"\nmax_tokens = 200\nbase_url = \"{base_url}\"\n\n"
    );
    let fixture = ProgramFixture::new(&(config + &home(&api)));
    let daemon = fixture.daemon().await;
    let mut known = 0;
    for (n, message) in MESSAGES.iter().enumerate() {
        let begun = Instant::now();
        api.say(&said(&ADA, message));
        while daemon.log().matches("A turn has ended").count() <= n {
            assert!(begun.elapsed() < MESSAGE_TIME_MAX, "{message}:\n{}", daemon.log());
            sleep(Duration::from_millis(200)).await;
        }
        let told: Vec<_> = api.sent().iter().skip(known).map(|sent| sent.text.clone()).collect();
        known += told.len();
        tell(message, &told.join("\n"));
    }
    let sent = api.sent();
    assert!(sent.len() >= MESSAGES.len(), "{sent:?}");
    assert!(!daemon.log().contains("panicked"), "{}", daemon.log());
}

#[expect(clippy::print_stdout, reason = "what the model said is read by people")]
fn tell(message: &str, told: &str) {
    println!("> {message}\n< {told}");
}
