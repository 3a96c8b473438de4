//! The program alone on a terminal: where nothing is set up, it asks if it should be.

use std::ffi::OsStr;
use std::fs;

use super::{
    COLUMNS, NO_SERVERS, config, empty, lines_fit, no_line_is_longer, unwrapped, wait_for_count,
    wait_for_text,
};
use crate::support::binary::{ProgramFixture, until};
use crate::support::pty::Pty;

const QUESTION: &str = "Nothing is set up yet. Set it up now? yes or no [yes]:";

/// A fixture with an empty config: named as one that must exist, it is as none.
fn blank() -> ProgramFixture {
    let fixture = empty();
    fs::write(config(&fixture), "").unwrap();
    fixture
}

/// The program without a command. A program whose parent ignores Ctrl-C, as in the background of a shell, would ignore it.
fn begin_alone(fixture: &ProgramFixture, columns: u16) -> Pty {
    let heeds_ctrl_c = ["env", "--default-signal=INT"].map(OsStr::new);
    let wrapper = [Pty::session(), heeds_ctrl_c].concat();
    let mut command = fixture.command(&wrapper, &[]);
    command.envs(NO_SERVERS);
    Pty::begin(command, columns)
}

#[tokio::test]
async fn no_leads_to_rehearsal() {
    for columns in COLUMNS {
        let fixture = blank();
        let mut screen = begin_alone(&fixture, columns);
        wait_for_text(&screen, QUESTION).await;
        screen.type_keys("perhaps\r");
        wait_for_text(&screen, "Please answer yes or no.").await;
        wait_for_count(&screen, "yes or no [yes]:", 2).await;
        screen.type_keys("no\r");
        wait_for_text(&screen, "Nothing is set up yet, so rehearsal answers by fixed rules.").await;
        screen.wait_for_line(">").await;
        // The command to copy is one line. The log is not of the dialog.
        let shown = screen.raw();
        assert!(
            shown.contains(&format!("--config {} init\r\n", config(&fixture).display())),
            "{shown}"
        );
        let (question, rest) = shown.split_once("Please answer yes or no.").unwrap();
        let (_, explained) = rest.split_once("Nothing is set up yet, so").unwrap();
        let (explained, _) = explained.split_once("run:\r\n").unwrap();
        lines_fit(question, columns);
        lines_fit(&format!("Nothing is set up yet, so{explained}run:"), columns);
        screen.type_keys("hello\r");
        screen.wait_for_words("You said: hello").await;
    }
}

#[tokio::test]
async fn yes_begins_the_setup() {
    for columns in COLUMNS {
        for yes in ["\r", "y\r"] {
            let fixture = empty();
            // Its config is in the home, which is not there yet.
            let mut command = fixture.bare_command_by(&Pty::session(), &[]);
            command.envs(NO_SERVERS);
            let mut screen = Pty::begin(command, columns);
            wait_for_text(&screen, QUESTION).await;
            screen.type_keys(yes);
            wait_for_text(&screen, "There are at most 6 questions.").await;
            wait_for_text(&screen, "Question 1 of 6. Which model should answer?").await;
            wait_for_text(&screen, "Number or address [1]:").await;
            screen.type_keys("none\r");
            wait_for_text(&screen, "Question 2 of 6. Where do you want to talk to it?").await;
            wait_for_text(&screen, "Number [1]:").await;
            screen.type_keys("none\r");
            wait_for_text(&screen, "Nothing is set up yet, and rehearsal answers by fixed rules.")
                .await;
            assert_eq!(screen.ends().await, Some(0));
            no_line_is_longer(&screen, columns);
            assert!(!fixture.home().join("config.toml").exists());
        }
    }
}

#[tokio::test]
async fn ctrl_c_at_the_question_ends_it_and_leaves_nothing() {
    for columns in COLUMNS {
        let fixture = blank();
        let mut screen = begin_alone(&fixture, columns);
        wait_for_text(&screen, QUESTION).await;
        screen.type_keys("\x03");
        assert_eq!(screen.ends().await, None, "it ends by the signal");
        assert!(screen.shows_keys());
        assert!(!fixture.home().exists());
    }
    // So does the end of the input, in order.
    let fixture = blank();
    let mut screen = begin_alone(&fixture, 120);
    wait_for_text(&screen, QUESTION).await;
    screen.type_keys("\x04");
    assert_eq!(screen.ends().await, Some(1));
    assert!(!fixture.home().exists());
}

#[tokio::test]
async fn nobody_is_asked_without_a_terminal_or_by_name_or_where_something_is_set_up() {
    let was_asked = |shown: &str| unwrapped(shown).contains("Set it up now");
    // By another program.
    let fixture = blank();
    let daemon = fixture.begin(fixture.command(&[], &[]));
    until("the daemon", async || daemon.log().contains("Started").then_some(())).await;
    assert!(!was_asked(&daemon.log()), "{}", daemon.log());
    // Beside a daemon that runs.
    let mut screen = begin_alone(&fixture, 120);
    assert_eq!(screen.ends().await, Some(1));
    assert!(!was_asked(&screen.raw()), "{}", screen.raw());
    daemon.terminate().await;
    // By its name, and where the config names a provider, if only the one without a model.
    let chosen = ProgramFixture::new("[providers.dry]\ntype = \"rehearsal\"\n");
    for (fixture, args) in [(&fixture, &["run"] as &[&str]), (&chosen, &[] as &[&str])] {
        let screen = Pty::begin(fixture.command(&Pty::session(), args), 120);
        screen.wait_for_line(">").await;
        assert!(!was_asked(&screen.raw()), "{}", screen.raw());
    }
    // A config with faults is refused.
    let broken = ProgramFixture::new("[agent]\nstep_max = 3\n");
    let mut screen = begin_alone(&broken, 120);
    assert_eq!(screen.ends().await, Some(2));
    assert!(!was_asked(&screen.raw()), "{}", screen.raw());
}
