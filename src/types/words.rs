//! A macro for the names of enum variants, which people write and read and which are stored.

/// Declares the names of an enum's variants. Parsing ignores ASCII case.
macro_rules! words {
    ($name:ident { $($variant:ident = $word:literal),+ $(,)? }) => {
        impl $name {
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            pub fn parse(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|variant| variant.as_str().eq_ignore_ascii_case(word))
            }
        }
    };
}
pub(crate) use words;
