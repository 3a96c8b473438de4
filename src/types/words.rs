//! The names of enum variants, as people write and read them and as they are stored.

/// Declares the names of an enum's variants. Parsing ignores ASCII case.
macro_rules! words {
    ($name:ident { $($variant:ident = $word:literal),+ $(,)? }) => {
        impl $name {
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            pub fn parse(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|it| it.as_str().eq_ignore_ascii_case(word))
            }
        }
    };
}
pub(crate) use words;
