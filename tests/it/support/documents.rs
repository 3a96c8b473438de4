//! Documents as people send them: the smallest PDF and office documents with some lines.

use std::io::{Cursor, Write};

use zip::write::SimpleFileOptions;

/// A PDF of one page.
pub(crate) fn pdf(lines: &[&str]) -> Vec<u8> {
    let shown: Vec<_> = lines.iter().map(|line| format!("({line}) Tj 0 -14 Td")).collect();
    pdf_of(&format!("BT /F1 12 Tf 72 720 Td {} ET", shown.join(" ")))
}

/// A PDF whose page has a content.
pub(crate) fn pdf_of(content: &str) -> Vec<u8> {
    pdf_with(&format!("<< /Length {} >>", content.len()), content.as_bytes())
}

/// A PDF whose page has a stream.
pub(crate) fn pdf_with(dictionary: &str, stream: &[u8]) -> Vec<u8> {
    let font = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>";
    let page = "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R \
                /Resources << /Font << /F1 5 0 R >> >> >>";
    let stream = [dictionary.as_bytes(), b"\nstream\n", stream, b"\nendstream"].concat();
    let objects: [Vec<u8>; 5] = [
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_vec(),
        page.as_bytes().to_vec(),
        stream,
        font.as_bytes().to_vec(),
    ];
    let mut file = b"%PDF-1.4\n".to_vec();
    let mut places = String::from("0000000000 65535 f \n");
    for (at, object) in objects.iter().enumerate() {
        places.push_str(&format!("{:010} 00000 n \n", file.len()));
        file.extend(format!("{} 0 obj\n", at + 1).bytes());
        file.extend(object);
        file.extend(b"\nendobj\n");
    }
    let start = file.len();
    file.extend(format!("xref\n0 6\n{places}trailer\n<< /Size 6 /Root 1 0 R >>\n").bytes());
    file.extend(format!("startxref\n{start}\n%%EOF\n").bytes());
    file
}

/// An archive of XML.
pub(crate) fn archive(parts: &[(&str, &str)]) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in parts {
        archive.start_file(*name, SimpleFileOptions::default()).unwrap();
        archive.write_all(content.as_bytes()).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

/// A document of Word.
pub(crate) fn docx(paragraphs: &[&str]) -> Vec<u8> {
    let text: String =
        paragraphs.iter().map(|text| format!("<w:p><w:r><w:t>{text}</w:t></w:r></w:p>")).collect();
    let document = format!("<w:document xmlns:w=\"w\"><w:body>{text}</w:body></w:document>");
    archive(&[("[Content_Types].xml", "<Types/>"), ("word/document.xml", &document)])
}
