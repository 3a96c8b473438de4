//! Texts with calls in them, in every form and split everywhere. How a provider uses this is tested
//! against the fakes of the APIs, in `text_tools.rs`.

use peacrab::provider::text_tools::scan::{AnswerPiece, BLOCK_BYTES_MAX, CallStrictness, Scanner};
use peacrab::provider::{MALFORMED_CALL, ToolSchema};
use proptest::prelude::*;
use serde_json::{Value, json};

const LOOK: &str =
    r#"<tool>{"server_name":"peacrab","tool_name":"look","arguments":{"path":"a"}}</tool>"#;

fn tools() -> Vec<ToolSchema> {
    let kinds = json!({"path": {"type": "string"}, "lines": {"type": "integer"}});
    ["look", "write", "mcp_git_read"]
        .map(|name| ToolSchema {
            name: name.to_owned(),
            description: String::new(),
            parameters: json!({"type": "object", "properties": kinds}),
        })
        .into()
}

/// What people see, and the calls as `name arguments`.
type Read = (String, Vec<String>);

fn read_with<'a>(
    tools: &[ToolSchema],
    reader: CallStrictness,
    texts: impl IntoIterator<Item = &'a str>,
) -> Read {
    let mut scanner = Scanner::new(tools, reader);
    let mut pieces: Vec<_> = texts.into_iter().flat_map(|text| scanner.take(text)).collect();
    pieces.extend(scanner.finish(false));
    let (mut text, mut found) = (String::new(), Vec::new());
    for piece in pieces {
        match piece {
            AnswerPiece::Text(words) => text += &words,
            AnswerPiece::Calls(calls, _) => {
                found.extend(calls.iter().map(|it| format!("{} {}", it.name, it.arguments)));
            }
        }
    }
    (text, found)
}

fn read(reader: CallStrictness, text: &str) -> Read {
    read_with(&tools(), reader, [text])
}

/// The fault of the only call.
fn fault(text: &str) -> String {
    let (words, calls) = read(CallStrictness::Strict, text);
    let [call] = &calls[..] else { panic!("{text}: {words:?} {calls:?}") };
    let arguments = call.strip_prefix(MALFORMED_CALL).unwrap_or_else(|| panic!("{call}"));
    let arguments: Value = serde_json::from_str(arguments.trim()).unwrap();
    assert!(!words.contains("<tool"), "{words}");
    arguments["fault"].as_str().unwrap().to_owned()
}

#[test]
fn reads_the_form_with_a_server() {
    let other = r#"<TOOL> {"tool_name":"read","arguments":{},"server_name":"git"} </Tool>"#;
    let quoted = r#"<tool>{"server_name":"peacrab","tool_name":"write","arguments":{"text":"a \"</tool>\" b"}}</tool>"#;
    for (text, words, calls) in [
        (LOOK.to_owned(), "", vec![r#"look {"path":"a"}"#]),
        (
            format!("I look.\n{LOOK}\n{other}"),
            "I look.\n\n",
            vec![r#"look {"path":"a"}"#, "mcp_git_read {}"],
        ),
        (format!("So:\n```json\n{LOOK}\n```\nBye"), "So:\n\nBye", vec![r#"look {"path":"a"}"#]),
        (
            format!("```\n{LOOK}\n{other}\n```"),
            "\n",
            vec![r#"look {"path":"a"}"#, "mcp_git_read {}"],
        ),
        (
            LOOK.replace("<tool>", "<tool>\n```json\n").replace("</tool>", "\n```</tool>"),
            "",
            vec![r#"look {"path":"a"}"#],
        ),
        (quoted.to_owned(), "", vec![r#"write {"text":"a \"</tool>\" b"}"#]),
        // Without its end, but whole.
        (LOOK.replace("</tool>", ""), "", vec![r#"look {"path":"a"}"#]),
        // The tools themselves refuse these.
        (LOOK.replace("look", "peek"), "", vec![r#"peek {"path":"a"}"#]),
        (LOOK.replace(r#"{"path":"a"}"#, "[1]"), "", vec!["look [1]"]),
        // What it makes up behind its calls.
        (
            format!("{LOOK}<tool_result>\nseen\n</tool_result>{LOOK}"),
            "",
            vec![r#"look {"path":"a"}"#],
        ),
    ] {
        let expected = (words.to_owned(), calls.into_iter().map(str::to_owned).collect());
        assert_eq!(read(CallStrictness::Strict, &text), expected, "{text}");
    }
}

#[test]
fn says_what_is_wrong_with_a_call() {
    for (text, expected) in [
        (
            LOOK.replace(r#""look","#, r#""look""#),
            "it is not valid JSON (expected `,` or `}` at line 1 column 44)",
        ),
        (LOOK.replace("}}", "},}"), "it is not valid JSON (trailing comma at line 1 column 70)"),
        (LOOK.replace("server_name", "server"), "the field `server_name` is missing"),
        (LOOK.replace("tool_name", "name"), "the field `tool_name` is missing"),
        (LOOK.replace("arguments", "args"), "the field `arguments` is missing"),
        (LOOK.replace(r#""look""#, "7"), "the field `tool_name` is not a string"),
        (LOOK.replace("peacrab", "home"), "there is no server `home`; there are: git, peacrab"),
        (
            "<tool>look</tool>".to_owned(),
            "it is not valid JSON (expected value at line 1 column 1)",
        ),
        (
            "<tool>{\"server_name".to_owned(),
            "it is not valid JSON (EOF while parsing a string at line 1 column 13)",
        ),
        (
            "<tool_call>{\"name\": </tool_call>".to_owned(),
            "it is not valid JSON (EOF while parsing a value at line 1 column 8)",
        ),
        ("<tool_call>{\"arguments\": {}}</tool_call>".to_owned(), "the field `name` is missing"),
        (
            "<tool_call>{\"name\": \"look\"}</tool_call>".to_owned(),
            "the field `arguments` is missing",
        ),
        (
            "<tool_call>{\"name\": 7, \"arguments\": {}}</tool_call>".to_owned(),
            "the field `name` is not a string",
        ),
        ("<function=look>{</function>".to_owned(), "it cannot be read"),
    ] {
        assert_eq!(fault(&text), expected, "{text}");
    }
}

/// The form that the prompt describes, with and without a server, in either tag and in a code fence.
#[test]
fn reads_a_call_in_a_tag_or_a_fence() {
    let named = r#"{"name": "look", "arguments": {"path": "a"}}"#;
    let with_server =
        r#"{"server_name": "peacrab", "tool_name": "look", "arguments": {"path": "a"}}"#;
    let local = with_server.replace("peacrab", "local");
    for call in [named, with_server, &local] {
        for (text, words) in [
            (format!("I look.\n<tool_call>\n{call}\n</tool_call>"), "I look.\n"),
            (format!("<tool>{call}</tool>"), ""),
            (format!("So:\n```json\n{call}\n```\nBye"), "So:\n\nBye"),
            (format!("```tool_call\n{call}\n```"), ""),
            (format!("```\n{call}```"), ""),
            (format!("```json\n{call}"), ""),
            (format!("{call}\n"), ""),
            (format!("<tool_call>{call}</tool_call><tool_response>\nseen\n</tool_response>"), ""),
        ] {
            let expected = (words.to_owned(), vec![LOOK_A.to_owned()]);
            assert_eq!(read(CallStrictness::Strict, &text), expected, "{text}");
            let pieces = split(&text, &[1]);
            let pieces = pieces.iter().map(String::as_str);
            assert_eq!(read_with(&tools(), CallStrictness::Strict, pieces), expected, "{text}");
        }
    }
    // An example for a person.
    for text in [
        "```json\n{\"name\": \"Ada\", \"age\": 7}\n```",
        "```json\n{\"name\": \"peek\", \"arguments\": {}}\n```",
        "```json\n{\"city\": \"Lima\"}\n```\nand ````json\n{\"name\": \"look\", \"arguments\": {}}\n````",
        "```json\n{\"name\": \"look\"",
    ] {
        assert_eq!(read(CallStrictness::Strict, text), (text.to_owned(), vec![]), "{text}");
    }
    let fenced = format!("```json\n{named}\n```");
    assert_eq!(read(CallStrictness::Lenient, &fenced), (fenced, vec![]));
}

#[test]
fn goes_on_behind_a_call_that_cannot_be_read() {
    let text = format!("{}{LOOK} Bye", LOOK.replace(r#""a""#, "\"a"));
    let (words, calls) = read(CallStrictness::Strict, &text);
    assert_eq!(words, " Bye");
    assert!(calls[0].starts_with(MALFORMED_CALL), "{calls:?}");
    assert_eq!(calls[1..], [r#"look {"path":"a"}"#]);
}

#[test]
fn lets_talk_of_calls_through() {
    for text in [
        "Write `<tool>` and `</tool>` around it.",
        "The tag is <tool>",
        "a < b, [1], [look], ```rust\nfn main() {}\n``` and <toolbox>",
        "<tool_result> is what comes back.",
        "<tool_call> is what Qwen writes, [TOOL_CALLS] what Mistral writes.",
        "<function=peek>{}</function>",
        "[look](https://example.org) at this",
        "[peek(path=\"a\")]",
        "{\"name\": \"Ann\", \"age\": 7}",
        "{\"name\": \"peek\", \"parameters\": {}}",
        "  {\n ``` ` `` [ < <| <｜tool",
    ] {
        for reader in [CallStrictness::Strict, CallStrictness::Lenient] {
            assert_eq!(read(reader, text), (text.to_owned(), vec![]), "{text}");
        }
    }
    // Of a model with native tools also what only looks like calls.
    for text in [
        LOOK.replace("look", "peek"),
        LOOK.replace("}}", "},}"),
        "```json\n<tool_call>{\"name\": \"peek\", \"arguments\": {}}</tool_call>\n```".to_owned(),
        format!("Like so: `{LOOK}`"),
        format!("Like so:\n```json\n{LOOK}\n```"),
        "<|python_tag|>print(1)".to_owned(),
        "<tool_call>{\"name\": \"look\"".to_owned(),
    ] {
        assert_eq!(read(CallStrictness::Lenient, &text), (text.clone(), vec![]), "{text}");
    }
}

const LOOK_A: &str = r#"look {"path":"a"}"#;

/// Blocks in the forms of others, and their calls. The sources of each are named in `forms`.
const FOREIGN: [(&str, &[&str]); 22] = [
    (
        "<tool_call>\n{\"name\": \"look\", \"arguments\": {\"path\": \"a\"}}\n</tool_call>",
        &[LOOK_A],
    ),
    (
        "<tool_call>{\"name\": \"look\", \"arguments\": \"{\\\"path\\\":\\\"a\\\"}\"}</tool_call>",
        &[LOOK_A],
    ),
    (
        "<tool_call>{\"name\": \"look\", \"arguments\": {\"path\": \"</tool_call>\"}}</tool_call>",
        &[r#"look {"path":"</tool_call>"}"#],
    ),
    (
        "<tool_call>\n<function=look>\n<parameter=path>\na\nb\n</parameter>\n<parameter=lines>\n7\n</parameter>\n</function>\n</tool_call>",
        &[r#"look {"path":"a\nb","lines":7}"#],
    ),
    ("<function=look>\n<parameter=path>\n7\n</parameter>\n</function>", &[r#"look {"path":"7"}"#]),
    ("<function=look>{\"path\": \"a\"}</function>", &[LOOK_A]),
    (
        "<tool_call>look\n<arg_key>path</arg_key>\n<arg_value>a</arg_value>\n<arg_key>lines</arg_key><arg_value>7</arg_value>\n</tool_call>",
        &[r#"look {"path":"a","lines":7}"#],
    ),
    ("<tool_call>look</tool_call>", &["look {}"]),
    (
        "[TOOL_CALLS] [{\"name\": \"look\", \"arguments\": {\"path\": \"a\"}}, {\"name\": \"write\", \"arguments\": {}, \"id\": \"abcdefghi\"}]",
        &[LOOK_A, "write {}"],
    ),
    (
        "[TOOL_CALLS]look[ARGS]{\"path\": \"a\"}[TOOL_CALLS]write[CALL_ID]abcdefghi[ARGS]{\"x\": \"]}\"}",
        &[LOOK_A, r#"write {"x":"]}"}"#],
    ),
    ("[TOOL_CALLS]look{\"path\": \"a\"}", &[LOOK_A]),
    (
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>look\n```json\n{\"path\": \"a\"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>write\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        &[LOOK_A, "write {}"],
    ),
    (
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>look<｜tool▁sep｜>{\"path\": \"a\"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        &[LOOK_A],
    ),
    ("<｜tool▁call▁begin｜>look<｜tool▁sep｜>{\"path\": \"a\"}<｜tool▁call▁end｜>", &[LOOK_A]),
    (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.look:0<|tool_call_argument_begin|>{\"path\": \"a\"}<|tool_call_end|><|tool_call_begin|>functions.write:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
        &[LOOK_A, "write {}"],
    ),
    (
        "<|tool_call_begin|>functions.look:0<|tool_call_argument_begin|>{\"path\": \"a\"}<|tool_call_end|>",
        &[LOOK_A],
    ),
    (
        "<|python_tag|>{\"name\": \"look\", \"parameters\": {\"path\": \"a\"}}; {\"name\": \"write\", \"parameters\": {}}<|eom_id|>",
        &[LOOK_A, "write {}"],
    ),
    ("{\"name\": \"look\", \"parameters\": {\"path\": \"a\"}}", &[LOOK_A]),
    (
        "[look(path=\"a\"), write(text='it\\'s \\u00fc', n=-1.5, ok=True, no=None, of=[1, {'k': ()}])]",
        &[],
    ),
    (
        "[look(path=\"a\"), write(text='it\\'s \\u00fc', n=-1.5, ok=True, no=None, of=[1, {'k': []}])]",
        &[LOOK_A, r#"write {"text":"it's ü","n":-1.5,"ok":true,"no":null,"of":[1,{"k":[]}]}"#],
    ),
    (r#"{"server_name": "peacrab", "tool_name": "look", "arguments": {"path": "a"}}"#, &[LOOK_A]),
    ("<|python_start|>[look(path=\"a\")]<|python_end|>", &[LOOK_A]),
];

#[test]
fn reads_the_forms_of_others() {
    for (text, calls) in FOREIGN {
        let words = if calls.is_empty() { text } else { "" };
        let expected = (words.to_owned(), calls.iter().map(|it| (*it).to_owned()).collect());
        for reader in [CallStrictness::Strict, CallStrictness::Lenient] {
            assert_eq!(read(reader, text), expected, "{text}");
        }
    }
}

#[test]
fn gives_up_a_block_that_never_ends() {
    let long = "x".repeat(BLOCK_BYTES_MAX);
    let own = LOOK.replace("\"a\"", &format!("\"{long}\""));
    assert_eq!(fault(&own), "it is longer than 256 kB");
    let (words, calls) = read(CallStrictness::Strict, &format!("{own} Bye{LOOK}"));
    assert_eq!((&*words, calls.len(), &*calls[1]), (" Bye", 2, LOOK_A));
    let (words, calls) = read(CallStrictness::Lenient, &own);
    assert_eq!((words, calls), (own.clone(), vec![]));
    let whole = format!("[look(path=\"{long}");
    assert_eq!(read(CallStrictness::Strict, &whole), (whole, vec![]));
    let fenced = format!("```json\n{{\"name\": \"{long}");
    assert_eq!(read(CallStrictness::Strict, &fenced), (fenced, vec![]));
}

#[test]
fn reads_no_more_calls_than_an_answer_can_have() {
    let (words, calls) = read(CallStrictness::Strict, &LOOK.repeat(100));
    assert_eq!((&*words, calls.len()), ("", 65));
    assert!(calls[64].starts_with(MALFORMED_CALL));
}

/// Parts of which texts are made that look like calls.
fn parts() -> impl Strategy<Value = Vec<String>> {
    let mut parts = vec![
        "<tool>",
        "</tool>",
        "<TOOL",
        ">",
        "```",
        "`",
        "json\n",
        "```json\n{\"name\": \"look\", \"arguments\": {}}\n```",
        "\n",
        " ",
        "{",
        "}",
        "\"",
        "\\",
        "[",
        "]",
        "(",
        ")",
        "=",
        ",",
        ":",
        "look",
        "write",
        "{\"name\":",
        "\"arguments\":{}",
        "<tool_result>",
        "<tool_call>",
        "</tool_call>",
        "<function=look>",
        "</function>",
        "<parameter=a>",
        "</parameter>",
        "<arg_key>",
        "</arg_key>",
        "<arg_value>",
        "[TOOL_CALLS]",
        "[ARGS]",
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁call▁begin｜>",
        "<｜tool▁sep｜>",
        "<｜tool▁call▁end｜>",
        "<｜tool▁calls▁end｜>",
        "<|tool_calls_section_begin|>",
        "<|tool_call_begin|>",
        "<|tool_call_argument_begin|>",
        "<|tool_call_end|>",
        "<|tool_calls_section_end|>",
        "<|python_tag|>",
        "<|python_start|>",
        "[look(",
        "Wörter",
        "🦀",
        LOOK,
    ];
    parts.extend(FOREIGN.iter().map(|(text, _)| *text));
    let known = proptest::sample::select(parts).prop_map(str::to_owned);
    prop::collection::vec(prop_oneof![9 => known, 1 => any::<String>()], 0..12)
}

fn split(text: &str, sizes: &[usize]) -> Vec<String> {
    let mut signs = text.chars().peekable();
    let mut sizes = sizes.iter().cycle();
    let mut pieces = Vec::new();
    while signs.peek().is_some() {
        pieces.push(signs.by_ref().take(*sizes.next().unwrap()).collect());
    }
    pieces
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn does_not_care_where_a_text_is_split(parts in parts(), sizes in prop::collection::vec(1usize..9, 1..9)) {
        let (text, tools) = (parts.concat(), tools());
        for reader in [CallStrictness::Strict, CallStrictness::Lenient] {
            let whole = read(reader, &text);
            for sizes in [&sizes[..], &[1]] {
                let pieces = split(&text, sizes);
                let read = read_with(&tools, reader, pieces.iter().map(String::as_str));
                prop_assert_eq!(&read, &whole);
            }
        }
    }

    #[test]
    fn loses_nothing_of_a_text_without_calls(parts in parts()) {
        let text = parts.concat();
        let (words, calls) = read_with(&[], CallStrictness::Lenient, [&*text]);
        prop_assert_eq!((words, calls), (text, vec![]));
    }

    #[test]
    fn loses_nothing_beside_the_blocks(before in "[a-z \n`\\[{<]{0,20}", behind in "[a-z \n]{0,20}") {
        let text = format!("{before}!{LOOK}!{behind}");
        let expected = (format!("{before}!!{behind}"), vec![LOOK_A.to_owned()]);
        prop_assert_eq!(read(CallStrictness::Strict, &text), expected);
    }

    #[test]
    fn never_shows_a_part_of_a_block(before in "[a-z ]{0,9}", cut in 7usize..80) {
        let text = format!("{before}{}", &LOOK[..cut]);
        let pieces = split(&text, &[1]);
        let (words, _) = read_with(&tools(), CallStrictness::Strict, pieces.iter().map(String::as_str));
        prop_assert_eq!(words, before);
    }
}
