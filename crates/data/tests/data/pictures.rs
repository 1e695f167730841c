//! Images from folders, idx and CIFAR files, plain and compressed; and files that claim what they do not
//! hold.

use crate::noise::Noise;
use crate::scratch::Scratch;
use crate::{shared, text};
use flate2::{Compression, write::GzEncoder};
use image::{GrayImage, ImageFormat, Luma, Rgb, RgbImage};
use regard_data::dataset::{
    Before, Cifar100, FolderOptions, ImageForm, Images, Labels, Resample, read_image, read_middle,
};
use std::io::{Cursor, Write};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::default());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

/// An idx file of these sizes.
fn idx(sizes: &[u32], data: &[u8]) -> Vec<u8> {
    let mut file = vec![0, 0, 8, sizes.len() as u8];
    sizes.iter().for_each(|size| file.extend(size.to_be_bytes()));
    file.extend(data);
    file
}

fn png(image: &RgbImage) -> Vec<u8> {
    let mut file = Cursor::new(Vec::new());
    image.write_to(&mut file, ImageFormat::Png).unwrap();
    file.into_inner()
}

fn colours(width: u32, height: u32) -> RgbImage {
    RgbImage::from_fn(width, height, |x, y| Rgb([x as u8, y as u8, 200]))
}

#[test]
fn idx_files_are_read_plain_and_packed() {
    let scratch = Scratch::new();
    let pixels: Vec<u8> = (0..12).collect();
    let (images, labels) = (idx(&[2, 3, 2], &pixels), idx(&[2], &[1, 0]));
    for (images, labels) in [(images.clone(), labels.clone()), (gzip(&images), gzip(&labels))] {
        let all = Images::idx(scratch.put("images", images), scratch.put("labels", labels)).unwrap();
        assert_eq!((all.len(), all.width(), all.height(), all.channels()), (2, 2, 3, 1));
        assert_eq!((all.pixels(1), all.label(0), all.label(1)), (&pixels[6..], 1, 0));
        assert_eq!(all.labels().names(), ["0", "1"]);
    }
}

#[test]
fn idx_files_are_not_believed() {
    let scratch = Scratch::new();
    let good = (idx(&[2, 1, 2], &[1, 2, 3, 4]), idx(&[2], &[1, 0]));
    let open = |images: &[u8], labels: &[u8]| {
        text(Images::idx(scratch.put("images", images), scratch.put("labels", labels)), &scratch)
    };
    let again = "it is cut off or another format: copy or download it again";
    assert_eq!(
        open(&good.0[..18], &good.1),
        format!("images: ends too soon: expected 4 bytes of 2 images of 2x1, got at most 2; {again}")
    );
    assert_eq!(
        open(&gzip(&good.0[..18]), &good.1),
        format!("images: ends too soon: expected 4 bytes of 2 images of 2x1, got 2; {again}")
    );
    // Claims of exabytes cost nothing, not even when they overflow.
    let huge = idx(&[u32::MAX, u32::MAX, u32::MAX], &[0; 100]);
    let message = open(&huge, &good.1);
    assert!(message.contains(&format!("expected {} bytes", u64::MAX)), "{message}");
    let message = open(&gzip(&idx(&[1 << 30, 1 << 10, 1], &[0; 100])), &good.1);
    assert!(
        message.contains("expected 1099511627776 bytes of 1073741824 images of 1x1024, got at most "),
        "{message}"
    );
    assert_eq!(
        open(&good.1, &good.0),
        "images: holds labels, expected images; name the file of images first, then that of labels"
    );
    assert_eq!(
        open(&good.0, &good.0),
        "labels: holds images, expected labels; name the file of images first, then that of labels"
    );
    assert_eq!(
        open(b"\x89PNG", &good.1),
        "images: begins with the bytes [89, 50, 4e, 47], expected [00, 00, 08, 03], an idx file of bytes; name the file \
         of images first, then that of labels"
    );
    assert_eq!(
        open(b"\0\0", &good.1),
        format!("images: ends too soon: expected 4 bytes of an idx header, got at most 2; {again}")
    );
    assert_eq!(
        open(&idx(&[0, 1, 1], &[]), &good.1),
        "images: says that a size is 0; it is damaged: copy or download it again"
    );
    assert_eq!(
        open(&good.0, &idx(&[3], &[0, 1, 2])),
        "labels: has 3 labels, but images has 2 images; take two files that belong together"
    );
    assert_eq!(
        open(&[&good.0[..], &[9]].concat(), &good.1),
        "images: goes on after the last of what its header promises; it is damaged or another format: copy or download \
         it again"
    );
    assert_eq!(
        open(&good.0, &idx(&[2], &[0, 0])),
        "labels: has no classes but `0`; a classifier needs at least two: take another file"
    );
    let message = open(&gzip(&good.0)[..20], &good.1);
    assert!(message.starts_with("images: "), "{message}");
    assert_eq!(open(b"", &good.1), "images: is empty; copy or download it again");
    // Cut or turned anywhere, packed or not: an error or other images, never a panic.
    let mut noise = Noise(3);
    for whole in [good.0.clone(), gzip(&good.0)] {
        for _ in 0..300 {
            let mut broken = whole[..noise.below(whole.len() + 1)].to_vec();
            if let Some(byte) = broken.len().checked_sub(1).map(|last| noise.below(last + 1)) {
                broken[byte] ^= 1 << noise.below(8);
            }
            let _ = Images::idx(scratch.put("images", &broken), scratch.put("labels", &good.1));
        }
    }
}

#[test]
fn cifar_files_are_records() {
    let scratch = Scratch::new();
    let record = |classes: &[u8], value: u8| [classes, &[value; 3072]].concat();
    let first = scratch.put("1.bin", [record(&[3], 10), record(&[9], 20)].concat());
    let second = scratch.put("2.bin.gz", gzip(&record(&[0], 30)));
    let all = Images::cifar10(&[&first, &second]).unwrap();
    assert_eq!((all.len(), all.width(), all.height(), all.channels()), (3, 32, 32, 3));
    assert_eq!((all.label(1), all.labels().name(3), all.pixels(2)[0]), (9, Some("cat"), 30));
    let hundred = scratch.put("100.bin", record(&[19, 99], 1));
    assert_eq!(Images::cifar100(&[&hundred], Cifar100::Fine).unwrap().label(0), 99);
    assert_eq!(Images::cifar100(&[&hundred], Cifar100::Coarse).unwrap().label(0), 19);
    assert_eq!(
        text(Images::cifar10(&[&hundred]), &scratch),
        "100.bin: holds 3074 bytes, expected a multiple of 3073: 1 for the class and 3072 for the pixels of each image; \
         it is cut off or another format: copy it again"
    );
    assert_eq!(
        text(Images::cifar100(&[&first], Cifar100::Fine), &scratch),
        "1.bin: holds 6146 bytes, expected a multiple of 3074: 2 for the class and 3072 for the pixels of each image; it \
         is cut off or another format: copy it again"
    );
    let wrong = scratch.put("3.bin", [record(&[3], 1), record(&[10], 2)].concat());
    assert_eq!(
        text(Images::cifar10(&[&wrong]), &scratch),
        "3.bin: image 2 has the class 10, expected below 10; it is damaged or another format: copy or download it again"
    );
    assert_eq!(text(Images::cifar10::<&str>(&[]), &scratch), "no file of images is named; name at least one");
    let message = text(Images::cifar10(&[scratch.put("4.bin.gz", b"\x1f\x8bnonsense")]), &scratch);
    assert!(message.starts_with("4.bin.gz: cannot be unpacked as gzip: "), "{message}");
    assert!(message.ends_with("; it is damaged: copy or download it again"), "{message}");
}

#[test]
fn folders_are_classes() {
    let scratch = Scratch::new();
    let image = colours(4, 3);
    scratch.put("set/dog/2.png", png(&image));
    scratch.put("set/dog/notes.txt", "not an image");
    scratch.put("set/cat/1.PNG", png(&image));
    let mut jpeg = Cursor::new(Vec::new());
    RgbImage::from_pixel(4, 3, Rgb([200, 100, 50])).write_to(&mut jpeg, ImageFormat::Jpeg).unwrap();
    scratch.put("set/dog/1.jpg", jpeg.into_inner());
    scratch.put("set/.hidden/1.png", "");
    let set = scratch.join("set");
    let all = Images::folder(&set, &FolderOptions::default()).unwrap();
    assert_eq!((all.len(), all.width(), all.height(), all.channels()), (3, 4, 3, 3));
    assert_eq!(all.labels().names(), ["cat", "dog"]);
    assert_eq!([0, 1, 2].map(|i| all.label(i)), [0, 1, 1]);
    // Channel by channel, row by row.
    assert_eq!(all.pixels(0)[..12], [0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3]);
    assert_eq!(all.pixels(0)[12..24], [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]);
    assert_eq!(all.pixels(0)[24..], [200; 12]);
    let near = |got: u8, expected: u8| got.abs_diff(expected) <= 3;
    assert!(near(all.pixels(1)[0], 200) && near(all.pixels(1)[12], 100) && near(all.pixels(1)[24], 50));
    // One channel, another size.
    let options = FolderOptions { grey: true, size: Some((2, 2)), labels: None };
    let grey = Images::folder(&set, &options).unwrap();
    assert_eq!((grey.channels(), grey.pixels(0).len()), (1, 4));
    let mut single = Cursor::new(Vec::new());
    GrayImage::from_pixel(2, 2, Luma([77])).write_to(&mut single, ImageFormat::Png).unwrap();
    scratch.put("grey/a/1.png", single.get_ref());
    scratch.put("grey/b/1.png", single.get_ref());
    assert_eq!(Images::folder(scratch.join("grey"), &options).unwrap().pixels(1), [77; 4]);
}

#[test]
fn folders_that_hold_no_classes_are_refused() {
    let scratch = Scratch::new();
    let open =
        |name: &str, options: &FolderOptions| text(Images::folder(scratch.join(name), options), &scratch);
    let plain = FolderOptions::default();
    scratch.put("set/cat/1.png", png(&colours(4, 3)));
    assert_eq!(
        open("set", &plain),
        "set: all labels are `cat`, expected at least two classes; check that the right column or folder was taken; make \
         one folder for each class"
    );
    scratch.put("set/dog/1.png", png(&colours(3, 4)));
    assert_eq!(
        open("set", &plain),
        "set/dog/1.png: is 3x4, expected 4x3 as set/cat/1.png; give a size to which all images are brought"
    );
    let sized = FolderOptions { size: Some((0, 4)), ..FolderOptions::default() };
    assert_eq!(open("set", &sized), "images cannot be brought to (0, 4); give sides from 1 to 16384");
    let known = Labels::of(["cat", "dot"]).unwrap();
    let labelled = FolderOptions { size: Some((4, 4)), labels: Some(known), ..FolderOptions::default() };
    assert_eq!(
        open("set", &labelled),
        "set/dog: is no class of the training set: no label is called `dog`; the nearest is `dot`; rename it"
    );
    let message = open("sat", &plain);
    assert!(message.ends_with("; the nearest name in that folder is `set`"), "{message}");
    assert_eq!(
        open("set/cat/1.png", &plain),
        "set/cat/1.png: is a file, expected a folder; name the folder of the classes"
    );
    assert_eq!(open("set/cat", &plain), "set/cat: has no folders; make one folder for each class");
    scratch.put("none/cat/a.txt", "");
    assert_eq!(
        open("none", &plain),
        "none/cat: has no .png, .jpg or .jpeg file; each class needs images: add some or remove the folder"
    );
    scratch.put("bad/a/1.png", b"\x89PNG\r\n\x1a\nnonsense");
    scratch.put("bad/b/1.png", "");
    let message = open("bad", &plain);
    assert!(message.starts_with("bad/a/1.png: cannot be decoded: "), "{message}");
    assert!(message.ends_with("; replace it by a PNG or JPEG file, or remove it"), "{message}");
    // A header that claims a side of two thousand million.
    let mut bomb = png(&colours(4, 3));
    bomb[16..20].copy_from_slice(&0x7fff_ffffu32.to_be_bytes());
    scratch.put("bad/a/1.png", bomb);
    assert!(open("bad", &plain).starts_with("bad/a/1.png: cannot be decoded: "));
}

#[test]
fn real_images_are_those_of_the_field() {
    let Some(folder) = shared("mnist") else { return };
    let open = |part: &str| {
        let [images, labels] =
            ["images-idx3", "labels-idx1"].map(|kind| folder.join(format!("{part}-{kind}-ubyte.gz")));
        Images::idx(images, labels).unwrap()
    };
    let (train, test) = (open("train"), open("t10k"));
    assert_eq!((train.len(), test.len(), test.width(), test.height()), (60_000, 10_000, 28, 28));
    // The first digits, as everybody who has seen MNIST knows them.
    assert_eq!([0, 1, 2, 3, 4].map(|i| train.label(i)), [5, 0, 4, 1, 9]);
    assert_eq!([0, 1, 2, 3, 4].map(|i| test.label(i)), [7, 2, 1, 0, 4]);
    let cifar = shared("cifar10/test_batch_first2000.bin.gz").unwrap();
    let cifar = Images::cifar10(&[cifar]).unwrap();
    assert_eq!((cifar.len(), cifar.labels().name(cifar.label(0))), (2000, Some("cat")));
}

#[test]
fn one_image_that_is_none_is_named() {
    let scratch = Scratch::new();
    let form = ImageForm { width: 2, height: 2, grey: false, resample: Resample::Bilinear };
    let none = text(read_image(scratch.join("none.png"), form), &scratch);
    assert!(none.contains("none.png"), "{none}");
    let path = scratch.put("words.png", b"no picture");
    let words = text(read_image(&path, form), &scratch);
    assert!(words.contains("words.png"), "{words}");
    let middle = text(read_middle(&path, form, None), &scratch);
    assert!(middle.contains("words.png"), "{middle}");
    let line = scratch.join("line.png");
    image::GrayImage::from_pixel(3000, 1, image::Luma([7])).save(&line).unwrap();
    let long = text(read_middle(&line, form, Some(Before::ShorterEdge(500))), &scratch);
    assert!(
        long.ends_with("is 3000x1, and would have to be made 1500000x500 first; cut it to what matters"),
        "{long}"
    );
}
