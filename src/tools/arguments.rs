//! Faults in the arguments of a call, in words for the model that wrote them: by the schema that it was
//! shown, not by the words of a parser.

use serde_json::{Map, Value};

/// Faults that are told at once; with more, the model had better begin anew.
const FAULTS_MAX: usize = 4;

/// Describes why `arguments`, which `error` refuses, do not fit a schema.
pub(super) fn fault(arguments: &str, schema: &Value, error: &serde_json::Error) -> String {
    let given = match serde_json::from_str(arguments) {
        Ok(Value::Object(given)) => given,
        Ok(_) => return format!("they must be a JSON object{}", example(schema)),
        Err(error) if error.is_eof() => return "the JSON ends too early".to_owned(),
        Err(error) => {
            return format!(
                "they are not valid JSON (line {}, column {})",
                error.line(),
                error.column()
            );
        }
    };
    let none = Map::new();
    let known = schema["properties"].as_object().unwrap_or(&none);
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let missing = required
        .filter(|name| given.get(*name).is_none_or(Value::is_null))
        .map(|name| format!("`{name}` is missing"));
    let unknown =
        given.iter().filter(|(name, value)| !known.contains_key(*name) && !value.is_null());
    let unknown = unknown.map(|(name, _)| {
        let names: Vec<_> = known.keys().map(|name| format!("`{name}`")).collect();
        match names.is_empty() {
            true => format!("there is no `{name}`: the call takes no arguments"),
            false => format!("there is no `{name}`; there are {}", names.join(", ")),
        }
    });
    let unfit = given.iter().filter_map(|(name, value)| {
        let wanted = unfit(value, known.get(name)?)?;
        Some(format!("`{name}` must be {wanted}, not {}", kind(value)))
    });
    let faults: Vec<String> = missing.chain(unknown).chain(unfit).take(FAULTS_MAX).collect();
    // The types of single values have words of their own.
    if faults.is_empty() { error.to_string() } else { faults.join("; ") }
}

/// Returns the required type of a value. None if the value fits, as far as the schema's own level says.
fn unfit(value: &Value, schema: &Value) -> Option<String> {
    if value.is_null() {
        return None;
    }
    if let Some(words) = schema["enum"].as_array() {
        let words: Vec<_> =
            words.iter().filter(|word| !word.is_null()).map(Value::to_string).collect();
        return (!words.contains(&value.to_string()))
            .then(|| format!("one of {}", words.join(", ")));
    }
    let wanted: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => return None,
    };
    let fits = wanted.iter().any(|kind| match *kind {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    });
    let named = wanted.iter().filter(|kind| **kind != "null").map(|kind| named(kind));
    (!fits).then(|| named.collect::<Vec<_>>().join(" or "))
}

fn named(kind: &str) -> &'static str {
    match kind {
        "string" => "a text",
        "integer" => "a whole number",
        "number" => "a number",
        "boolean" => "true or false",
        "array" => "a list",
        _ => "an object",
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(number) if number.is_f64() => "a number with a point",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The arguments that must be there, as they are written.
fn example(schema: &Value) -> String {
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let fields: Vec<_> = required.map(|name| format!("\"{name}\": …")).collect();
    if fields.is_empty() { String::new() } else { format!(": {{{}}}", fields.join(", ")) }
}
