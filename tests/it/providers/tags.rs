//! Reasoning in the answer's text, however the text is split.

use std::collections::VecDeque;

use peacrab::provider::Delta;
use peacrab::provider::openai::tags::ThinkTags;
use proptest::prelude::*;

/// The reasoning and the words of a text that comes in these pieces.
fn read<'a>(pieces: impl IntoIterator<Item = &'a str>) -> (String, String) {
    let (mut tags, mut deltas) = (ThinkTags::default(), VecDeque::new());
    pieces.into_iter().for_each(|piece| tags.take(piece, &mut deltas));
    tags.finish(&mut deltas);
    let (mut reasoning, mut words) = (String::new(), String::new());
    for delta in deltas {
        match delta {
            Delta::Thinking(text) => reasoning.push_str(&text),
            Delta::Text(text) => words.push_str(&text),
            other => panic!("{other:?}"),
        }
    }
    (reasoning, words)
}

const CASES: [(&str, &str, &str); 8] = [
    ("\n<think>Hm. </ü> 1 < 2</think>\n\n Yes. <think>", "Hm. </ü> 1 < 2", "Yes. <think>"),
    ("<think></think>Yes.", "", "Yes."),
    ("<think>cut off </thi", "cut off </thi", ""),
    ("<think>all</think>\n", "all", ""),
    (" Plain 🦀 text\n", "", " Plain 🦀 text\n"),
    ("<thin", "", "<thin"),
    ("<thing>", "", "<thing>"),
    ("Say <think>so</think>.", "", "Say <think>so</think>."),
];

proptest! {
    #[test]
    fn does_not_care_where_a_text_is_split(size in 1usize..50) {
        for (text, reasoning, words) in CASES {
            let chars: Vec<char> = text.chars().collect();
            let pieces: Vec<String> = chars.chunks(size).map(String::from_iter).collect();
            let read = read(pieces.iter().map(String::as_str));
            prop_assert_eq!(read, (reasoning.to_owned(), words.to_owned()));
        }
    }
}
