//! From the CommonMark that models write to what platforms show, in chunks that they take.

use peacrab::channels::Unit;
use peacrab::channels::markup::{Markup, plain, render, render_printed};
use peacrab::channels::text::length;
use proptest::prelude::*;

use crate::support::effort;
use Markup::{Discord, Plain, Slack, TelegramHtml, Terminal};

const ALL: [Markup; 3] = [TelegramHtml, Discord, Slack];

fn unit(markup: Markup) -> Unit {
    if markup == TelegramHtml { Unit::Utf16 } else { Unit::Chars }
}

fn chunks(text: &str, markup: Markup, max: usize) -> Vec<String> {
    render(text, markup, max, unit(markup))
}

/// A chunk as the plain text of a platform that takes long ones.
fn as_text(chunk: &str, markup: Markup) -> String {
    plain(chunk, markup, 100_000, unit(markup))
}

/// What becomes of a short text on Telegram, Discord and Slack.
fn check(text: &str, [telegram, discord, slack]: [&str; 3]) {
    assert_eq!(chunks(text, TelegramHtml, 4096), [telegram], "Telegram: {text:?}");
    assert_eq!(chunks(text, Discord, 2000), [discord], "Discord: {text:?}");
    assert_eq!(chunks(text, Slack, 4000), [slack], "Slack: {text:?}");
}

fn check_discord(text: &str, expected: &str) {
    assert_eq!(chunks(text, Discord, 2000), [expected], "{text:?}");
}

#[test]
fn shows_formatted_words() {
    check(
        "**b** *i* ~~s~~ `c` ***bi*** <x> & \"y\"",
        [
            "<b>b</b> <i>i</i> <s>s</s> <code>c</code> <b><i>bi</i></b> &lt;x&gt; &amp; \"y\"",
            "**b** _i_ ~~s~~ `c` **_bi_** <x> & \"y\"",
            "*b* _i_ ~s~ `c` *_bi_* &lt;x&gt; &amp; \"y\"",
        ],
    );
    check("one\ntwo<br>three", ["one\ntwo\nthree"; 3]);
}

/// What becomes of something printed on Telegram, Discord and Slack; in the terminal, nothing does.
fn check_printed(text: &str, expected: [&str; 3]) {
    for (markup, expected) in ALL.into_iter().zip(expected) {
        assert_eq!(render_printed(text, markup, 2000, unit(markup)), [expected], "{text:?}");
    }
    assert_eq!(render_printed(text, Plain, 2000, Unit::Chars), [text]);
}

#[test]
fn shows_what_was_printed_as_it_is() {
    check_printed(
        "The tide is high:\nhttps://sea.example/a_b",
        ["The tide is high:\nhttps://sea.example/a_b"; 3],
    );
    check_printed(
        "__init__ is *done* & <b>",
        [
            "__init__ is *done* &amp; &lt;b&gt;",
            r"\_\_init\_\_ is \*done\* & <b>",
            "```\n__init__ is *done* &amp; &lt;b&gt;\n```",
        ],
    );
    // White space is part of it.
    for text in ["a:\n    b", "  a", "name  size", "a\tb", "a\n\n\nb"] {
        let fenced = format!("```\n{text}\n```");
        check_printed(text, [&format!("<pre>{text}</pre>"), &fenced, &fenced]);
    }
    check_printed("# a\n- b\n1. c", ["# a\n- b\n1. c", "\\# a\n\\- b\n1\\. c", "# a\n- b\n1. c"]);
    for emoji in [":door: open", "> quoted"] {
        let shown = render_printed(emoji, Slack, 2000, Unit::Chars).concat();
        assert!(shown.starts_with("```"), "{shown}");
    }
}

proptest! {
    #[test]
    fn nothing_that_was_printed_is_lost(text in "[ -~\n\u{e9}]{1,200}") {
        for markup in [TelegramHtml, Discord] {
            let chunks = render_printed(&text, markup, 2000, unit(markup));
            let shown: String = chunks.iter().map(|chunk| as_text(chunk, markup)).collect();
            let words = |text: &str| text.replace("```", "").split_whitespace().collect::<String>();
            prop_assert_eq!(words(&shown), words(&text));
        }
    }
}

#[test]
fn shows_headings() {
    check("# A *b*\ntext", ["<b>A <i>b</i></b>\ntext", "# A _b_\ntext", "*A _b_*\ntext"]);
    check("#### Deep", ["<b>Deep</b>", "**Deep**", "*Deep*"]);
}

#[test]
fn shows_lists() {
    check(
        "- a\n  1. b\n  2. c\n     more\n- [x] d\n- [ ] e",
        [
            "• a\n  1. b\n  2. c\n     more\n☑ d\n☐ e",
            "- a\n  1. b\n  2. c\n     more\n- ☑ d\n- ☐ e",
            "• a\n  1. b\n  2. c\n     more\n☑ d\n☐ e",
        ],
    );
}

#[test]
fn shows_quotes() {
    check(
        "> a\n> b\n>\n> c\n\nd",
        [
            "<blockquote>a\nb\n\nc</blockquote>\n\nd",
            "> a\n> b\n> \n> c\n\nd",
            "> a\n> b\n> \n> c\n\nd",
        ],
    );
    check(
        "> ```py\n> x\n> ```",
        [
            "<blockquote><pre><code class=\"language-py\">x</code></pre></blockquote>",
            "> ```py\n> x\n> ```",
            "```\nx\n```",
        ],
    );
}

#[test]
fn shows_code() {
    check(
        "```rust,ignore\nlet a = 1 < 2;\n\n  **b**\n```\nafter",
        [
            "<pre><code class=\"language-rust\">let a = 1 &lt; 2;\n\n  **b**</code></pre>\nafter",
            "```rust\nlet a = 1 < 2;\n\n  **b**\n```\nafter",
            "```\nlet a = 1 &lt; 2;\n\n  **b**\n```\nafter",
        ],
    );
    check(
        "````\n```\nx\n```\n````",
        [
            "<pre>```\nx\n```</pre>",
            "```\n``\u{200b}`\nx\n``\u{200b}`\n```",
            "```\n``\u{200b}`\nx\n``\u{200b}`\n```",
        ],
    );
}

#[test]
fn shows_links_that_the_platform_has_and_writes_the_others_out() {
    check(
        "[a](https://x.org/?q=1&r=_b_ 'title') ![pic](http://p.org)",
        [
            "<a href=\"https://x.org/?q=1&amp;r=_b_\">a</a> <a href=\"http://p.org\">pic</a>",
            "[a](https://x.org/?q=1&r=_b_) [pic](http://p.org)",
            "<https://x.org/?q=1&amp;r=_b_|a> <http://p.org|pic>",
        ],
    );
    check(
        "[m](mailto:a@b.c) [t](tg://user?id=1)",
        [
            "<a href=\"mailto:a@b.c\">m</a> <a href=\"tg://user?id=1\">t</a>",
            "m (mailto:a@b.c) t (tg://user?id=1)",
            "<mailto:a@b.c|m> t (tg://user?id=1)",
        ],
    );
    check("[a](b.md) [x](javascript:y)", ["a (b.md) x (javascript:y)"; 3]);
    check(
        "<https://x.org/a_b_> and https://y.org/__c",
        ["https://x.org/a_b_ and https://y.org/__c"; 3],
    );
    check("[https://x.org](https://x.org)", ["https://x.org"; 3]);
    check_discord("[https://y.org](https://x.org)", "https://y.org (https://x.org)");
}

#[test]
fn shows_where_links_lead_that_are_defined_but_not_used() {
    check("text\n\n[1]: https://x.org", ["text\n\n[1]: https://x.org"; 3]);
    check(
        "text [1]\n\n[1]: https://x.org",
        [
            "text <a href=\"https://x.org\">1</a>",
            "text [1](https://x.org)",
            "text <https://x.org|1>",
        ],
    );
}

#[test]
fn shows_narrow_tables_in_columns() {
    let columns =
        "Name | Value |  説明\n-----|-------|-------\na    |     1 | 日本語\nbb   | 22222 |   x";
    check(
        "| Name | Value | 説明 |\n|:--|--:|:-:|\n| a | 1 | 日本語 |\n| **bb** | 22222 | x |",
        [
            &format!("<pre>{columns}</pre>"),
            &format!("```\n{columns}\n```"),
            &format!("```\n{columns}\n```"),
        ],
    );
}

#[test]
fn shows_wide_tables_as_lists() {
    let wide = "word ".repeat(12);
    let wide = wide.trim();
    check(
        &format!("| A | B |\n|--|--|\n| a | {wide} |\n| c |  |"),
        [
            &format!("• <b>A</b>: a\n  <b>B</b>: {wide}\n• <b>A</b>: c"),
            &format!("- **A**: a\n  **B**: {wide}\n- **A**: c"),
            &format!("• *A*: a\n  *B*: {wide}\n• *A*: c"),
        ],
    );
}

#[test]
fn shows_what_is_half_written() {
    check("**bold", ["**bold", "\\*\\*bold", "**bold"]);
    check(
        "```py\nx = 1",
        [
            "<pre><code class=\"language-py\">x = 1</code></pre>",
            "```py\nx = 1\n```",
            "```\nx = 1\n```",
        ],
    );
    check("[a](http", ["[a](http", "\\[a\\](http", "[a](http"]);
    check("a\n\n-", ["a"; 3]);
}

#[test]
fn shows_html_as_text() {
    check(
        "<b>x</b> <!channel> <@U1> &lt;i&gt;",
        [
            "&lt;b&gt;x&lt;/b&gt; &lt;!channel&gt; &lt;@U1&gt; &lt;i&gt;",
            "<b>x</b> <!channel> <@U1> <i>",
            "&lt;b&gt;x&lt;/b&gt; &lt;!channel&gt; &lt;@U1&gt; &lt;i&gt;",
        ],
    );
}

#[test]
fn discord_shows_signs_as_they_are() {
    check_discord("snake_case is 2 \\* 3", "snake_case is 2 \\* 3");
    check_discord(
        "\\_x\\_ \\`y\\` \\~\\~z\\~\\~ ||s||",
        "\\_x\\_ \\`y\\` \\~\\~z\\~\\~ \\|\\|s\\|\\|",
    );
    check_discord(
        "1986\\. A year\n\\# no\n\\- no\n\\> no",
        "1986\\. A year\n\\# no\n\\- no\n\\> no",
    );
    check_discord("C:\\dir ~5", "C:\\dir ~5");
    check_discord("`` a`b `` *x*y", "``a`b`` *x*y");
}

#[test]
fn slack_has_formatting_only_between_words() {
    assert_eq!(chunks("a**b**c **d**. **2 \\* 3**", Slack, 4000), ["abc *d*. 2 * 3"]);
}

#[test]
fn drops_what_no_platform_shows() {
    check("a\0b\u{7}c\r\nd\re", ["abc\nd\ne"; 3]);
    for markup in [Plain, TelegramHtml, Discord, Slack] {
        for blank in ["", " \n\t\n", "\r\n"] {
            assert!(chunks(blank, markup, 100).is_empty());
        }
    }
}

#[test]
fn leaves_plain_text_alone() {
    assert_eq!(chunks("**a** <b>\n- c", Plain, 100), ["**a** <b>\n- c"]);
    assert_eq!(as_text("**a** &lt;", Plain), "**a** &lt;");
}

#[test]
fn closes_what_it_cuts_and_opens_it_again() {
    let text = format!("**{}**", "words and more words. ".repeat(5).trim());
    assert_eq!(
        chunks(&text, TelegramHtml, 60),
        [
            "<b>words and more words. words and more words.</b>",
            "<b>words and more words. words and more words.</b>",
            "<b>words and more words.</b>"
        ]
    );
    let code = "```rust\nlet one = 1;\nlet two = 2;\nlet three = 3;\nlet four = 4;\n```";
    assert_eq!(
        chunks(code, Discord, 60),
        ["```rust\nlet one = 1;\nlet two = 2;\nlet three = 3;\n```", "```rust\nlet four = 4;\n```"]
    );
    assert_eq!(
        chunks("> one two three four five six\n> seven eight nine ten eleven twelve", Slack, 60),
        ["> one two three four five six", "> seven eight nine ten eleven twelve"]
    );
}

#[test]
fn does_not_cut_links_and_writes_long_ones_out() {
    let text = "Some words that come before [the link itself](https://x.org/a) and after";
    assert_eq!(
        chunks(text, Discord, 60),
        ["Some words that come before", "[the link itself](https://x.org/a) and after"]
    );
    let long = format!("[a](https://x.org/{})", "b".repeat(60));
    let shown: String = chunks(&long, TelegramHtml, 60).concat();
    assert_eq!(shown, format!("a(https://x.org/{})", "b".repeat(60)));
}

#[test]
fn keeps_a_heading_with_what_follows() {
    let text = format!("{}\n\n# Head\n\n{}", "word ".repeat(8), "more ".repeat(8));
    assert_eq!(
        chunks(&text, Discord, 60),
        ["word ".repeat(8).trim().to_owned(), format!("# Head\n\n{}", "more ".repeat(8).trim())]
    );
}

#[test]
fn counts_the_text_that_telegram_shows_and_its_entities() {
    let text = "**x** <".repeat(40);
    assert_eq!(chunks(&text, TelegramHtml, 120).len(), 2);
    let bold = "**x** ".repeat(150);
    let chunks = chunks(&bold, TelegramHtml, 4096);
    assert_eq!(chunks.iter().map(|chunk| chunk.matches("<b>").count()).max(), Some(100));
    assert_eq!(chunks.len(), 2);
}

#[test]
fn turns_chunks_back_into_plain_text() {
    let text = "# H\n**b** _i_ `c*` [l](https://x.org) a\\*b <t> snake_case\n```rs\nlet a_b;\n```";
    let telegram = chunks(text, TelegramHtml, 4096).concat();
    let shown = "H\nb i c* l (https://x.org) a*b <t> snake_case\nlet a_b;";
    assert_eq!(as_text(&telegram, TelegramHtml), shown);
    assert_eq!(as_text(&chunks(text, Discord, 2000).concat(), Discord), shown);
    assert_eq!(
        as_text(&chunks("[l](https://x.org) <t> &amp;", Slack, 4000).concat(), Slack),
        "l (https://x.org) <t> &"
    );
}

#[test]
fn takes_any_depth_of_nesting() {
    for sign in [">", "> ", "[", "- ", "1. ", "> - ", "![", "*a **b ", "[a]("] {
        let text = format!("{}word\n{}", sign.repeat(10_000), "next\n".repeat(100));
        for markup in ALL {
            let shown: String = chunks(&text, markup, 2000).concat();
            assert!(shown.contains("word"), "{markup:?} {sign:?}");
        }
    }
}

/// CommonMark as models write it.
fn writing() -> impl Strategy<Value = String> {
    let word = "[a-zé🦀]{1,9}[.,!?]?";
    let inline = prop_oneof![
        6 => word,
        1 => "[*_~`]{1,3}[a-z ]{1,20}[*_~`]{1,3}",
        1 => "\\*\\*[a-z ]{1,60}\\*\\*",
        1 => "\\[[a-z *]{0,30}\\]\\((https?://|mailto:|)[a-z./_()]{1,40}\\)",
        1 => "`[a-z<>&*`]{1,12}`",
        1 => "https://[a-z._/]{1,30}",
        1 => "\\PC{0,8}",
        1 => Just("👩‍👩‍👧‍👦 🇩🇪".to_owned()),
    ];
    let line = prop::collection::vec(inline, 0..14).prop_map(|words| words.join(" "));
    let block = prop_oneof![
        4 => line.clone(),
        1 => line.clone().prop_map(|line| format!("## {line}")),
        2 => ("( {0,4}|> )(- |1\\. |- \\[x\\] )", line.clone()).prop_map(|(a, b)| a + &b),
        1 => line.clone().prop_map(|line| format!("> {line}")),
        1 => "```(rust|)\n([a-z<&`(){};]{0,30}\n {0,4}){0,6}```",
        1 => "\\| [a-z*]{1,9} \\| [a-z]{1,30} \\|\n\\|--\\|--\\|\n(\\| [a-z`]{0,9} \\| [a-z]{0,40} \\|\n){0,4}",
    ];
    let blocks = prop::collection::vec((block, "\n{1,2}"), 0..12);
    blocks.prop_map(|blocks| blocks.into_iter().map(|(block, end)| block + &end).collect())
}

/// Writing of which every word is shown.
fn prose() -> impl Strategy<Value = String> {
    let inline = prop_oneof![
        6 => "[a-zé🦀]{1,9}[.,!?]?",
        1 => "[*_~`]{1,2}[a-z ]{1,20}[*_~`]{1,2}",
        1 => "\\*\\*[a-z ]{1,60}\\*\\*",
        1 => "https://[a-z._/]{1,30}",
        1 => "<[c-z]{1,5}>",
    ];
    let line = prop::collection::vec(inline, 0..20).prop_map(|words| words.join(" "));
    let lead = "(( {0,4}|> )(- |- \\[ \\] )|> |## )?";
    let block = (lead, line, "\n{1,2}").prop_map(|(lead, line, end)| lead + &line + &end);
    prop::collection::vec(block, 0..12).prop_map(|blocks| blocks.concat())
}

/// Whatever could confuse: signs in any order.
fn signs() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        8 => "[*_~`\\[\\]()<>#|\\\\!&;:. \n\t>-]{1,6}",
        3 => "[a-z0-9]{1,5}",
        1 => "\\PC",
        1 => Just("](http://x.org)".to_owned()),
        1 => Just("https://".to_owned()),
        1 => Just("\n|--|--|\n".to_owned()),
        1 => Just("```".to_owned()),
        1 => Just("&#x60;&amp;&#0;&#10;".to_owned()),
    ];
    prop::collection::vec(part, 0..60).prop_map(|parts| parts.concat())
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![3 => writing(), 3 => signs(), 1 => any::<String>()]
}

/// What Telegram would say against a message: a strict reading of its HTML.
fn telegram_error(html: &str) -> Option<String> {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = html;
    while let Some(at) = rest.find(['<', '>', '&']) {
        let from = &rest[at..];
        if from.starts_with('&') {
            let known = ["&lt;", "&gt;", "&amp;", "&quot;"];
            let Some(entity) = known.iter().find(|entity| from.starts_with(**entity)) else {
                return Some(format!("unknown entity at {from:?}"));
            };
            rest = &from[entity.len()..];
            continue;
        }
        let Some((tag, after)) = from.strip_prefix('<').and_then(|tag| tag.split_once('>')) else {
            return Some(format!("stray sign at {from:?}"));
        };
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            if open.pop() != Some(name) {
                return Some(format!("</{name}> closes nothing"));
            }
            continue;
        }
        let (name, attribute) = tag.split_once(' ').unwrap_or((tag, ""));
        let inside = open.last().copied().unwrap_or("");
        let allowed = match (inside, name, attribute) {
            ("pre", "code", class) => class.starts_with("class=\"language-"),
            ("code" | "pre" | "a", ..) => false,
            (_, "a", href) => {
                let url = href.strip_prefix("href=\"").and_then(|href| href.strip_suffix('"'));
                url.is_some_and(|url| !url.contains('"'))
            }
            (_, "blockquote", "") => open.is_empty(),
            (_, "b" | "i" | "s", "") => !open.contains(&name),
            (_, "code", "") => !open.iter().any(|tag| ["b", "i", "s"].contains(tag)),
            (_, "pre", "") => open.iter().all(|tag| *tag == "blockquote"),
            _ => false,
        };
        if !allowed {
            return Some(format!("<{tag}> inside of {open:?}"));
        }
        open.push(name);
    }
    (!open.is_empty()).then(|| format!("{open:?} left open"))
}

/// What is wrong with the backticks of a message, as Discord reads them.
fn discord_error(chunk: &str) -> Option<String> {
    if !chunk.matches("```").count().is_multiple_of(2) {
        return Some("an open fence".to_owned());
    }
    let texts = chunk.split("```").step_by(2);
    for line in texts.flat_map(str::lines) {
        let mut rest = line;
        while let Some(at) = rest.find(['\\', '`']) {
            let from = &rest[at..];
            if let Some(escaped) = from.strip_prefix('\\') {
                let sign = |char: char| char.is_ascii_punctuation();
                rest = escaped.strip_prefix(sign).unwrap_or(escaped);
                continue;
            }
            let ticks = from.len() - from.trim_start_matches('`').len();
            let mut end = ticks;
            loop {
                let Some(next) = from[end..].find('`') else {
                    return Some(format!("open code in {line:?}"));
                };
                end += next;
                let run = from[end..].len() - from[end..].trim_start_matches('`').len();
                end += run;
                if run == ticks {
                    break;
                }
            }
            rest = &from[end..];
        }
    }
    None
}

/// What is in angle brackets in a Slack message that is not a link of ours.
fn slack_error(chunk: &str) -> Option<String> {
    chunk.split('<').skip(1).find_map(|part| {
        let link = part.split_once('>').and_then(|(link, _)| link.split_once('|'));
        let is_link = link.is_some_and(|(url, label)| {
            ["http:", "https:", "mailto:"]
                .iter()
                .any(|scheme| url.to_lowercase().starts_with(scheme))
                && !label.is_empty()
        });
        (!is_link).then(|| part.to_owned())
    })
}

fn ink(text: &str) -> Vec<char> {
    text.chars().filter(|char| char.is_alphanumeric()).collect()
}

#[test]
fn shows_cells_beyond_the_head() {
    for markup in ALL {
        let shown = chunks("| a | b |\n|--|--|\n| 1 | 2 | 3 | 4 |\n| 5 |", markup, 2000).concat();
        assert!(shown.contains("1 | 2 | 3 | 4"), "{shown}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(effort::cases(400)))]

    #[test]
    fn no_cell_of_a_table_is_lost(rows in proptest::collection::vec(1_usize..9, 1..5), outer: bool) {
        let mut words = Vec::new();
        let mut table = "| a | b |\n|---|---|\n".to_owned();
        for cells in rows {
            let row: Vec<_> = (0..cells).map(|n| format!("w{}x{n}", words.len())).collect();
            let (open, close) = if outer { ("| ", " |") } else { ("", "") };
            table.push_str(&format!("{open}{}{close}\n", row.join(" | ")));
            words.extend(row);
        }
        for markup in ALL {
            let shown = chunks(&table, markup, 4000).concat();
            prop_assert!(words.iter().all(|word| shown.contains(word)), "{shown}\n{table}");
        }
    }

    #[test]
    fn chunks_fit_and_are_valid(text in any_text(), max in 60_usize..400) {
        for markup in ALL {
            for chunk in chunks(&text, markup, max) {
                prop_assert!(!chunk.trim().is_empty());
                let (counted, error) = match markup {
                    TelegramHtml => (shown(&chunk), telegram_error(&chunk)),
                    Discord => (chunk.clone(), discord_error(&chunk)),
                    Slack | Plain | Terminal => (chunk.clone(), slack_error(&chunk)),
                };
                prop_assert!(length(&counted, unit(markup)) <= max, "{markup:?} {chunk:?}");
                prop_assert!(length(&chunk, unit(markup)) <= 3 * max, "{markup:?} {chunk:?}");
                prop_assert_eq!(error, None, "{:?} {:?}", markup, chunk);
            }
        }
    }

    #[test]
    fn even_the_smallest_chunks_fit(text in any_text(), max in 16_usize..60) {
        for markup in ALL {
            for chunk in chunks(&text, markup, max) {
                let counted = if markup == TelegramHtml { shown(&chunk) } else { chunk };
                prop_assert!(length(&counted, unit(markup)) <= max, "{markup:?} {counted:?}");
            }
        }
    }

    #[test]
    fn all_words_are_there_in_order(text in prose(), max in 60_usize..400) {
        for markup in ALL {
            let all: String = chunks(&text, markup, max).iter().map(|chunk| as_text(chunk, markup)).collect();
            let all = ink(&all);
            let mut at = all.iter();
            let missing = ink(&text).into_iter().find(|char| !at.any(|other| other == char));
            prop_assert_eq!(missing, None, "{:?} {:?}", markup, chunks(&text, markup, max));
        }
    }

    #[test]
    fn plain_paragraphs_come_through_exactly(
        words in prop::collection::vec("[a-zé🦀,.!?]{0,11}[a-z]( |\n|\n\n)?", 0..80),
        max in 60_usize..200,
    ) {
        let text = words.concat();
        let solid = |text: &str| text.split_whitespace().collect::<String>();
        for markup in ALL {
            let all: String = chunks(&text, markup, max).iter().map(|chunk| as_text(chunk, markup)).collect();
            prop_assert_eq!(solid(&all), solid(&text), "{:?}", markup);
        }
    }
}

/// The text that Telegram shows of its HTML.
fn shown(html: &str) -> String {
    let parts = html.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text));
    let text: String = parts.collect();
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}

#[test]
fn a_terminal_shows_no_escapes() {
    for (markdown, shown) in [
        (r"\*not bold\* and a\_b", "*not bold* and a_b"),
        (r"C:\new and 1\2", r"C:\new and 1\2"),
        (r"`a\_b` and a\_b", r"`a\_b` and a_b"),
        ("```\n\\_\n```\n\\_", "```\n\\_\n```\n_"),
        ("a lone ` here\\*\n\nnext\\*", "a lone ` here\\*\n\nnext*"),
    ] {
        assert_eq!(chunks(markdown, Terminal, 100), [shown]);
        assert_eq!(render_printed(markdown, Terminal, 100, Unit::Chars), [markdown]);
    }
}
