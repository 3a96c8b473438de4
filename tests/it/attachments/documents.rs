//! The text of documents, as the helper process reads it; and documents that are made to do harm.

use std::fs;
use std::io::{Seek, Write};
use std::process::Stdio;
use std::time::Duration;

use lopdf::{
    Document, EncryptionState, EncryptionVersion, Object, Permissions, Stream, dictionary,
};
use peacrab::documents::text::{DocumentText, UnreadDocument};
use peacrab::documents::{DocumentForm, DocumentReader};
use proptest::prelude::*;

use crate::support::documents::{archive, docx, pdf, pdf_of, pdf_with};

fn reader() -> DocumentReader {
    DocumentReader::new(env!("CARGO_BIN_EXE_peacrab"))
}

async fn read(form: DocumentForm, bytes: &[u8]) -> Result<DocumentText, UnreadDocument> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file.rewind().unwrap();
    reader().read(form, file, bytes.len() as u64).await
}

async fn check(form: DocumentForm, bytes: &[u8], text: &str) {
    assert_eq!(read(form, bytes).await.map(|it| it.text), Ok(text.to_owned()));
}

#[tokio::test]
async fn the_text_of_a_pdf_is_read_line_by_line() {
    use DocumentForm::Pdf;
    check(
        Pdf,
        &pdf(&["Lease agreement", "The rent is 800 crowns."]),
        "Lease agreement\nThe rent is 800 crowns.",
    )
    .await;
    // Gaps between pieces are spaces, kerning is none; a movement down is a new line.
    let content =
        "BT /F1 12 Tf [(Te) 20 (a and)-300(cake)] TJ 1 0 0 1 72 700 Tm (below) Tj T* (last) Tj ET";
    check(Pdf, &pdf_of(content), "Tea and cake\nbelow\nlast").await;
    // Umlauts of the usual encoding.
    let bytes = pdf_with("<< /Length 40 >>", b"BT /F1 12 Tf 1 1 Td (Gr\\374n) Tj ET       ");
    check(Pdf, &bytes, "Grün").await;
}

/// A PDF whose page shows a form, which has this content, the page's fonts, and itself as a form.
fn pdf_with_form(content: &str) -> Vec<u8> {
    let mut document = Document::load_mem(&pdf_of("/Form Do BT /F1 12 Tf (page) Tj ET")).unwrap();
    let form = dictionary! { "Type" => "XObject", "Subtype" => "Form" };
    let mut form = Stream::new(form, content.as_bytes().to_vec());
    form.compress().unwrap();
    let form = document.add_object(form);
    let page = document.page_iter().next().unwrap();
    let page = document.get_dictionary_mut(page).unwrap();
    let resources = page.get_mut(b"Resources").and_then(Object::as_dict_mut).unwrap();
    resources.set("XObject", dictionary! { "Form" => form });
    let own = resources.clone();
    let form = document.get_object_mut(form).and_then(Object::as_stream_mut).unwrap();
    form.dict.set("Resources", own);
    let mut bytes = Vec::new();
    document.save_to(&mut bytes).unwrap();
    bytes
}

#[tokio::test]
async fn the_text_in_forms_of_a_pdf_is_read_and_forms_in_forms_end() {
    use DocumentForm::Pdf;
    let content = "BT /F1 12 Tf 72 700 Td (Lease of) Tj 0 -14 Td (the form) Tj ET";
    check(Pdf, &pdf_with_form(content), "Lease of\nthe form\npage").await;
    // A form that shows itself, and one that shows itself a hundred times.
    let itself = "BT /F1 12 Tf (deep) Tj ET /Form Do";
    check(Pdf, &pdf_with_form(itself), "deep\ndeep\ndeep\ndeep\npage").await;
    let often = format!("BT /F1 12 Tf (deep) Tj ET {}", "/Form Do ".repeat(100));
    let shown = read(Pdf, &pdf_with_form(&often)).await.unwrap();
    assert!(shown.text.ends_with("page"), "{}", shown.text.len());
}

#[tokio::test]
async fn the_text_of_office_documents_is_read() {
    use DocumentForm::Office;
    check(Office, &docx(&["Lease &amp; rent", "800 &#8364;"]), "Lease & rent\n800 €").await;
    let slide = |text: &str| {
        format!("<p:sld xmlns:a=\"a\"><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:sld>")
    };
    let slides = archive(&[
        ("ppt/presentation.xml", "<p/>"),
        ("ppt/slides/slide10.xml", &slide("ten")),
        ("ppt/slides/slide2.xml", &slide("two")),
    ]);
    check(Office, &slides, "two\n\nten").await;
    let sheets = archive(&[
        ("xl/workbook.xml", "<workbook/>"),
        (
            "xl/sharedStrings.xml",
            "<sst><si><t>Rent</t></si><si><r><t>Tea</t></r><r><t> time</t></r></si></sst>",
        ),
        (
            "xl/worksheets/sheet1.xml",
            "<worksheet><row><c t=\"s\"><v>0</v></c><c><v>800</v></c></row>\
             <row><c t=\"s\"><v>1</v></c><c t=\"inlineStr\"><is><t>five</t></is></c></row></worksheet>",
        ),
    ]);
    check(Office, &sheets, "Rent\t800\nTea time\tfive").await;
    let content = "<office:document-content xmlns:text=\"t\" xmlns:office=\"o\"><text:h>Lease</text:h>\
                   <text:p>The <text:span>rent</text:span> is<text:s/>800</text:p></office:document-content>";
    check(Office, &archive(&[("content.xml", content)]), "Lease\nThe rent is 800").await;
}

#[tokio::test]
async fn a_hostile_document_gives_an_explanation_and_nothing_else() {
    use DocumentForm::{Office, Pdf};
    use UnreadDocument::{Broken, Empty, Locked};
    assert_eq!(read(Pdf, b"%PDF-1.4 and nothing").await, Err(Broken));
    assert_eq!(read(Office, b"PK\x03\x04 and nothing").await, Err(Broken));
    assert_eq!(read(Office, &archive(&[("virus.exe", "MZ")])).await, Err(Broken));
    assert_eq!(read(Pdf, &pdf_of("0 0 m 10 10 l S")).await, Err(Empty));
    // Arrays in arrays, for a parser that calls itself.
    let deep = format!("BT /F1 12 Tf {} TJ ET", "[".repeat(1_000_000));
    assert!(read(Pdf, &pdf_of(&deep)).await.is_err());
    // A small file that unpacks to 200 MB, as a page and as a part of an archive.
    let zeros = deflated(200_000_000);
    let packed = format!("<< /Length {} /Filter /FlateDecode >>", zeros.len());
    assert!(read(Pdf, &pdf_with(&packed, &zeros)).await.is_err());
    let bomb = archive_with_bomb();
    let shown = read(Office, &bomb).await;
    assert!(shown.as_ref().is_err() || shown.unwrap().is_cut);
    // Pages that are each other's parents.
    let circle = String::from_utf8(pdf(&["x"])).unwrap();
    let circle = circle.replace("/Kids [3 0 R]", "/Kids [2 0 R]");
    assert!(read(Pdf, circle.as_bytes()).await.is_err());
    // Entities that a document declares are not expanded, of files neither.
    let evil = "<!DOCTYPE w [<!ENTITY a \"lol\"><!ENTITY b \"&a;&a;\"><!ENTITY f SYSTEM \"file:///etc/passwd\">]>\
                <w:document><w:p><w:t>begin &b; &f; end</w:t></w:p></w:document>";
    let shown = read(Office, &archive(&[("word/document.xml", evil)])).await.unwrap().text;
    assert!(shown.starts_with("begin") && shown.ends_with("end"), "{shown}");
    assert!(!shown.contains("lol") && !shown.contains("root"), "{shown}");
    assert_eq!(read(Pdf, &locked()).await, Err(Locked));
    // More text than is kept.
    let long = "lorem ipsum dolor sit amet ".repeat(40_000);
    let cut = read(Office, &docx(&[&long])).await.unwrap();
    assert!(cut.is_cut && cut.text.len() <= peacrab::documents::text::TEXT_BYTES_MAX);
    check(Pdf, &pdf(&["Still here"]), "Still here").await;
}

/// A PDF that opens with a password.
fn locked() -> Vec<u8> {
    let mut document = Document::load_mem(&pdf(&["x"])).unwrap();
    let id = Object::string_literal("0123456789abcdef");
    document.trailer.set("ID", Object::Array(vec![id.clone(), id]));
    let state = EncryptionState::try_from(EncryptionVersion::V2 {
        document: &document,
        owner_password: "owner",
        user_password: "user",
        key_length: 128,
        permissions: Permissions::all(),
    });
    document.encrypt(&state.unwrap()).unwrap();
    let mut bytes = Vec::new();
    document.save_to(&mut bytes).unwrap();
    bytes
}

fn deflated(length: usize) -> Vec<u8> {
    let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    let piece = vec![b' '; 1_000_000];
    (0..length / piece.len()).for_each(|_| packed.write_all(&piece).unwrap());
    packed.finish().unwrap()
}

/// A document whose text unpacks to 80 MB.
fn archive_with_bomb() -> Vec<u8> {
    let text = "x".repeat(80_000_000);
    let document = format!("<w:document><w:p><w:t>{text}</w:t></w:p></w:document>");
    archive(&[("word/document.xml", &document)])
}

#[tokio::test]
async fn the_process_that_reads_has_no_way_to_files_or_the_network() {
    #[expect(clippy::disallowed_methods, reason = "the program is this test's own child")]
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_peacrab"))
        .args(["__document", "pdf"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // It waits for its document once it has taken its rights away.
    let status = format!("/proc/{}/status", child.id());
    let line = |name: &str| {
        let status = fs::read_to_string(&status).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().to_owned()
    };
    let confined = async {
        while line("Seccomp:") != "2" {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), confined).await.unwrap();
    assert_eq!(line("NoNewPrivs:"), "1");
    let limits = fs::read_to_string(format!("/proc/{}/limits", child.id())).unwrap();
    assert!(limits.lines().any(|line| line.starts_with("Max file size") && line.contains(" 0 ")));
    child.stdin.take().unwrap().write_all(&pdf(&["Read anyway"])).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert!(String::from_utf8(output.stdout).unwrap().contains("Read anyway"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever a document is, there is a text or a reason.
    #[test]
    fn any_bytes_have_an_outcome(
        cut in 0_usize..900,
        flips in proptest::collection::vec((0_usize..900, any::<u8>()), 0..20),
        is_office: bool,
    ) {
        let (form, mut bytes) = match is_office {
            true => (DocumentForm::Office, docx(&["Lease agreement", "rent"])),
            false => (DocumentForm::Pdf, pdf(&["Lease agreement", "rent"])),
        };
        for (at, byte) in flips {
            let length = bytes.len();
            bytes[at % length] ^= byte;
        }
        bytes.truncate(bytes.len().saturating_sub(cut % 100));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let outcome = runtime.block_on(read(form, &bytes));
        prop_assert!(outcome.is_ok_and(|it| it.text.len() < 10_000) || bytes.len() < 1_000_000);
    }
}
