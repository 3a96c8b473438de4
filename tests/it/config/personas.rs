//! `[personas.NAME]`: what is read, and what is wrong.

use peacrab::people::Role;
use peacrab::turn::personas::{PersonaReason, PersonaSubject};
use peacrab::types::person::PersonId;
use peacrab::types::persona::PersonaMemory;
use peacrab::types::session::Finish;

use super::*;

#[test]
fn reads_all_keys_of_a_persona() {
    let config = load(
        r#"
[agent]
tools = ["read_file"]
[channels.home]
type = "telegram"
token = "7:x"
owners = [1]
[providers.cheap]
type = "rehearsal"
[personas.kid]
chats = ["home:-5", "home:-6:7"]
people = ["p5", "home:8"]
servers = ["home:9"]
channels = ["home"]
roles = ["guest"]
default = true
tools = ["web_*"]
providers = ["cheap"]
tokens_max = 300
finish = "explicit"
memory = "place"
quiet = "21:00-07:00"
tokens_per_day = 1000
dollars_per_month = 2
"#,
        &secrets(),
    )
    .unwrap();
    let subject = |at: &str, person| PersonaSubject {
        at: at.parse().unwrap(),
        known_on: "home".into(),
        sender: "1".into(),
        person,
        role: Role::User,
        within: vec!["9".into()],
    };
    let personas = &config.agent.personas;
    for (at, person, reason) in [
        ("home:-6:7", None, PersonaReason::Thread),
        ("home:-5", None, PersonaReason::Chat),
        ("home:1", Some(PersonId(5)), PersonaReason::Person),
        ("home:1", None, PersonaReason::Server),
        ("terminal:1", None, PersonaReason::Default),
    ] {
        assert_eq!(personas.choose(&subject(at, person)).reason, reason, "{at}");
    }
    let chosen = personas.choose(&subject("home:-5", None));
    let persona = &chosen.persona;
    assert_eq!(persona.name.unwrap().as_str(), "kid");
    assert!(persona.tools.allow("web_fetch") && !persona.tools.allow("read_file"));
    assert_eq!(
        (persona.providers.as_slice(), persona.tokens_max),
        (&["cheap".to_owned()][..], Some(300))
    );
    assert_eq!((persona.finish, persona.memory), (Some(Finish::Explicit), PersonaMemory::Place));
    assert_eq!(chosen.quiet.unwrap().to_string(), "21:00–07:00");
    let budget = config.agent.budgets.personas[&persona.name.unwrap()];
    assert_eq!(budget.day.tokens, Some(1000));
    assert_eq!(budget.month.cost.unwrap().to_string(), "$2.00");
}

#[test]
fn tells_what_is_wrong_with_a_persona() {
    let errors = load(
        r#"
[providers.main]
type = "rehearsal"
[personas.empty]
[personas.kid]
people = ["five", "work:8"]
chats = ["home"]
channels = ["work"]
providers = ["mian"]
quiet = "at night"
default = true
[personas.other]
roles = ["guest"]
[personas.third]
roles = ["guest"]
[personas."no name"]
default = true
"#,
        &secrets(),
    )
    .unwrap_err();
    insta::assert_snapshot!(errors, @r#"
    config.toml:4:11: [personas.empty] is for nobody: name chats, people, servers, channels or roles, or set `default = true`
    config.toml:6:11: an entry of `people` in [personas.kid] must be a number such as p5, or CHANNEL:ID
    config.toml:6:19: an entry of `people` in [personas.kid] names the channel work, which does not exist
    config.toml:7:10: an entry of `chats` in [personas.kid] must be CHANNEL:CHAT or CHANNEL:CHAT:THREAD
    config.toml:8:13: an entry of `channels` in [personas.kid] names the channel work, which does not exist
    config.toml:9:14: an entry of `providers` in [personas.kid] names a provider that does not exist; did you mean `main`?
    config.toml:10:9: `quiet` in [personas.kid] must be two times of the day, such as "21:00-07:00"
    config.toml:14:11: [personas.third] is for nobody: name chats, people, servers, channels or roles, or set `default = true`
    config.toml:15:10: an entry of `roles` in [personas.third] is named by another persona, too
    config.toml:16:11: a name in [personas] must be 1 to 32 of a-z, A-Z, 0-9, - and _
    "#);
}
