//! Templates of webhooks: texts with placeholders for values of a request. They are in every build, because the
//! config has them.

use std::str::FromStr;

/// A text with placeholders. `{{` and `}}` stand for braces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template(Vec<TemplatePart>);

/// A part of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplatePart {
    Text(String),
    /// `{body}`
    Body,
    /// `{header:NAME}`, in lower case.
    Header(String),
    /// `{repository.name}`: the path to a value in a JSON body.
    Value(Vec<String>),
}

impl FromStr for Template {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (mut parts, mut rest) = (Vec::new(), text);
        let mut plain = String::new();
        while let Some(at) = rest.find(['{', '}']) {
            plain.push_str(&rest[..at]);
            let (brace, after) = rest[at..].split_at(1);
            if let Some(after) = after.strip_prefix(brace) {
                plain.push_str(brace);
                rest = after;
                continue;
            }
            let Some((placeholder, after)) = after.split_once('}').filter(|_| brace == "{") else {
                return Err(format!("has a single `{brace}`; write `{brace}{brace}` for a brace"));
            };
            if !plain.is_empty() {
                parts.push(TemplatePart::Text(std::mem::take(&mut plain)));
            }
            parts.push(placeholder.trim().parse()?);
            rest = after;
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(TemplatePart::Text(plain));
        }
        Ok(Self(parts))
    }
}

impl FromStr for TemplatePart {
    type Err = String;

    fn from_str(placeholder: &str) -> Result<Self, String> {
        let is_allowed = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
        let is_name = |name: &str| !name.is_empty() && name.chars().all(is_allowed);
        match placeholder.split_once(':') {
            Some(("header", name)) if is_name(name) => Ok(Self::Header(name.to_ascii_lowercase())),
            None if placeholder == "body" => Ok(Self::Body),
            None if placeholder.split('.').all(is_name) => {
                Ok(Self::Value(placeholder.split('.').map(str::to_owned).collect()))
            }
            _ => Err("has an unknown placeholder; there are {body}, {header:NAME} and {key.key}"
                .to_owned()),
        }
    }
}

impl Template {
    /// Returns the text, with each placeholder replaced by what `value` returns.
    pub fn render(&self, value: impl Fn(&TemplatePart) -> String) -> String {
        let part = |part: &TemplatePart| match part {
            TemplatePart::Text(text) => text.clone(),
            placeholder => value(placeholder),
        };
        self.0.iter().map(part).collect()
    }
}
