//! Telegram's HTML, read as strictly as its book says (Bot API, "HTML style"): what is not allowed
//! there is refused in Telegram's words, and so is a sign that ought to be written as an entity.

/// The text that people see, without its markup.
pub(super) fn text(html: &str) -> Result<String, String> {
    let refused = |why: String| format!("Bad Request: can't parse entities: {why}");
    let mut seen = String::new();
    let mut open: Vec<String> = Vec::new();
    let mut at = 0;
    while let Some(sign) = html[at..].chars().next() {
        let rest = &html[at..];
        at += match sign {
            '<' => {
                let end = rest
                    .find('>')
                    .ok_or_else(|| refused(format!("Unclosed start tag at byte offset {at}")))?;
                tag(&rest[1..end], at, &mut open).map_err(refused)?;
                end + 1
            }
            '>' => return Err(refused(format!("A bare > at byte offset {at}"))),
            '&' => {
                let (decoded, length) =
                    entity(rest).ok_or_else(|| refused(format!("A bare & at byte offset {at}")))?;
                seen.push(decoded);
                length
            }
            sign => {
                seen.push(sign);
                sign.len_utf8()
            }
        };
    }
    match open.pop() {
        None => Ok(seen),
        Some(name) => {
            Err(refused(format!("Can't find end tag corresponding to start tag \"{name}\"")))
        }
    }
}

fn tag(inside: &str, at: usize, open: &mut Vec<String>) -> Result<(), String> {
    if let Some(name) = inside.strip_prefix('/') {
        return match open.pop() {
            Some(expected) if expected == name => Ok(()),
            Some(expected) => Err(format!(
                "Unmatched end tag at byte offset {at}, expected \"</{expected}>\", found \"</{name}>\""
            )),
            None => Err(format!("Unexpected end tag at byte offset {at}")),
        };
    }
    let (name, attributes) = inside.split_once(' ').unwrap_or((inside, ""));
    let quoted = |name: &str| {
        attributes
            .strip_prefix(name)
            .and_then(|value| value.strip_prefix("=\""))
            .and_then(|value| value.strip_suffix('"'))
            .filter(|value| !value.contains(['"', '<', '>']))
    };
    let allowed = match name {
        "b" | "strong" | "i" | "em" | "u" | "ins" | "s" | "strike" | "del" | "tg-spoiler"
        | "pre" => attributes.is_empty(),
        "blockquote" => matches!(attributes, "" | "expandable"),
        "a" => quoted("href").is_some_and(|url| !url.is_empty()),
        "span" => quoted("class") == Some("tg-spoiler"),
        "code" if open.last().is_some_and(|parent| parent == "pre") => {
            attributes.is_empty()
                || quoted("class").is_some_and(|class| class.starts_with("language-"))
        }
        "code" => attributes.is_empty(),
        _ => false,
    };
    if !allowed {
        return Err(format!("Unsupported start tag \"{inside}\" at byte offset {at}"));
    }
    // Telegram drops what is within code, and so shows something else than was meant.
    let within_code = open.iter().any(|parent| parent == "code")
        || open.iter().any(|parent| parent == "pre") && name != "code";
    let again = name == "blockquote" && open.iter().any(|parent| parent == "blockquote");
    if within_code || again {
        return Err(format!("A tag \"{name}\" that cannot be nested at byte offset {at}"));
    }
    open.push(name.to_owned());
    Ok(())
}

/// The sign that an entity at the beginning stands for, and the entity's length.
fn entity(text: &str) -> Option<(char, usize)> {
    let end = text.find(';')?;
    let sign = match &text[1..end] {
        "lt" => '<',
        "gt" => '>',
        "amp" => '&',
        "quot" => '"',
        number => {
            let number = number.strip_prefix('#')?;
            let code = match number.strip_prefix('x') {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code)?
        }
    };
    Some((sign, end + 1))
}
