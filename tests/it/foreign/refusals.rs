//! A refused call is explained to the model with the one way that works, and nothing in the explanation contradicts it.

use peacrab::people::Role;
use peacrab::trust::permission::PermissionReason;
use peacrab::trust::table::{Act, Ruling, TurnState, decide};
use peacrab::trust::taint::Taint;
use peacrab::turn::prompt::denied;

/// All reasons that no other reason contains.
fn plain_reasons() -> Vec<PermissionReason> {
    let taint = Taint::Tool("web_fetch".to_owned());
    let untrusted = Act::all().map(|act| PermissionReason::Untrusted(taint.clone(), act));
    let each_time = Act::all().map(PermissionReason::EachTime);
    let others = [
        PermissionReason::Role { needs: Role::Admin, is: Role::User },
        PermissionReason::Group,
        PermissionReason::Named,
        PermissionReason::Asker(Role::User),
    ];
    others.into_iter().chain(untrusted).chain(each_time).collect()
}

#[test]
fn each_refusal_names_the_way_that_works_and_contradicts_it_nowhere() {
    let plain = plain_reasons();
    let unattended = [Ruling::Downloads, Ruling::Refuse].into_iter().flat_map(|ruling| {
        let reasons = plain.iter().cloned();
        reasons.map(move |why| PermissionReason::Unattended(Box::new(why), ruling))
    });
    let all: Vec<_> = plain.iter().cloned().chain(unattended).collect();
    let stands_for =
        all.iter().map(|why| PermissionReason::StandsFor("exec", Box::new(why.clone())));
    let all: Vec<_> = all.iter().cloned().chain(stands_for).collect();
    assert!(all.len() > 200, "{}", all.len());
    for why in all {
        let (words, way) = (denied(&why), why.alternative());
        assert_eq!(words, format!("Denied: {why}. What works: {way}. Try no other way."));
        assert!(way.len() > 20 && !way.ends_with('.'), "{way}");
        assert!(!words.contains("another way"), "{words}");
    }
}

#[test]
fn the_way_is_what_the_table_allows() {
    let taint = Taint::Tool("web_fetch".to_owned());
    for act in Act::all() {
        let turn = TurnState { is_tainted: true, is_attended: false };
        let ruling = decide(act, turn);
        let untrusted = PermissionReason::Untrusted(taint.clone(), act);
        let unattended = PermissionReason::Unattended(Box::new(untrusted.clone()), ruling);
        // In a run, the report is a way always; downloads/ is one where the table says so.
        let (way, report) =
            (unattended.alternative(), "say in your report what you would have done");
        assert!(way.contains(report), "{act}: {way}");
        assert_eq!(way.contains("downloads/"), ruling == Ruling::Downloads, "{act}: {way}");
        // Where the config refuses in place of asking, untrusted content can be left out.
        let way = untrusted.alternative();
        assert_eq!(way.contains("downloads/"), ruling == Ruling::Downloads, "{act}: {way}");
        // A command can be begun anew; it sees the same.
        let needs_clean = ruling != Ruling::Downloads && act != Act::WriteToCommand;
        assert_eq!(way.contains("/clean"), needs_clean, "{act}: {way}");
    }
}

#[test]
fn who_may_not_is_told_who_may() {
    for (why, words) in [
        (
            PermissionReason::Role { needs: Role::Admin, is: Role::User },
            "Denied: it needs the role admin, and the person who asked has the role user. What works: only that somebody \
             with the role admin asks for it. Try no other way.",
        ),
        (
            PermissionReason::Group,
            "Denied: only the owner can use it, in a private chat, and this is a group. What works: only that the owner \
             asks for it in a private chat. Try no other way.",
        ),
    ] {
        assert_eq!(denied(&why), words);
    }
}
