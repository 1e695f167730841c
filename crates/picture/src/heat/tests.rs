use super::*;
use crate::check::fault;
use crate::escaped;

#[test]
fn every_number_has_its_cell() {
    let heat = Heat::new("ΔA", "key", "query_i", 3, [0.1, -0.2, 0.0, 1.0, 0.5, 0.25], Colours::Signed);
    let svg = heat.svg();
    assert_eq!(fault(&svg), None);
    assert_eq!(svg.matches("class=\"more\"").count() + svg.matches("class=\"less\"").count(), 6);
    assert_eq!(svg.matches("class=\"less\"").count(), 1);
    assert!(svg.contains(">−.20<") && svg.contains(">1.00<"), "{svg}");
    assert!(svg.contains("<title>row 1, column 2: −0.2</title>"), "{svg}");
    assert_eq!(fault(&heat.captioned(crate::marked)), None);
}

#[test]
fn names_are_escaped_and_short() {
    let names = |n: usize| (0..n).map(|i| format!("<{i}&\n abcdefghijklmn")).collect::<Vec<_>>();
    let heat = Heat::new("a<b", "", "", 3, vec![0.25; 6], Colours::Share).named(names(2), names(3));
    let svg = heat.svg();
    assert_eq!(fault(&svg), None);
    assert!(svg.contains("&lt;0&amp;\u{fffd}") && svg.contains('…') && !svg.contains("<0"), "{svg}");
    assert_eq!(svg.matches("class=\"tick\"").count(), 5);
    assert!(svg.contains("fill-opacity=\"0.460\""), "the square root of a quarter: {svg}");
    assert_eq!(fault(&heat.captioned(escaped)), None);
}

#[test]
fn large_maps_are_thinned_by_their_largest() {
    let mut numbers = vec![0.0; 300 * 200];
    numbers[17 * 200 + 123] = -3.0;
    let heat = Heat::new("", "", "", 200, numbers, Colours::Signed);
    let svg = heat.svg();
    assert_eq!(fault(&svg), None);
    assert_eq!(svg.matches("class=\"less\" fill-opacity=\"0.920\"").count(), 1);
    assert!(svg.len() < 2000, "what cannot be seen is not drawn: {}", svg.len());
}

#[test]
fn maps_of_anything_are_pictures() {
    let (nan, infinite) = (f64::NAN, f64::INFINITY);
    for numbers in [vec![], vec![0.0; 3], vec![nan, infinite, -infinite], vec![1e300, -1e-300, 5e9, 7.0]] {
        for colours in [Colours::Rising, Colours::Signed, Colours::Share] {
            for width in [0, 2] {
                let heat = Heat::new("", "", "", width, numbers.clone(), colours);
                assert_eq!(fault(&heat.svg()), None, "{numbers:?}");
                assert!(!heat.svg().contains("opacity=\"NaN"));
                assert!(png([("1.2-x?".into(), heat.clone())], 0).starts_with(b"\x89PNG"));
                assert_eq!(heat.characters().len(), numbers.len().div_ceil(width.max(1)));
            }
        }
    }
    assert!(png([], 3).starts_with(b"\x89PNG"));
}

#[test]
fn a_png_has_the_colours_of_its_numbers() {
    let heat = |x: f64| Heat::new("", "", "", 2, [x, 0.0, 0.0, x], Colours::Share);
    let bytes = png([("0.0".into(), heat(1.0)), ("0.1".into(), heat(0.0))], 2);
    let picture = image::load_from_memory(&bytes).unwrap().to_rgb8();
    assert_eq!(picture.dimensions(), (10 + 2 * (64 + 10), 10 + 64 + 16 + 10));
    assert_eq!(picture.get_pixel(11, 27).0, crate::palette::mixed(1.0, false));
    assert_eq!(picture.get_pixel(10 + 40, 27).0, crate::palette::mixed(0.0, false));
    assert_ne!(picture.get_pixel(10, 10).0, [255; 3], "the label");
}

#[test]
fn characters_grow_with_their_share() {
    let heat = Heat::new("", "", "", 3, [0.0, 0.01, 0.05, 0.15, 0.35, 0.65], Colours::Share);
    assert_eq!(heat.characters(), ["  ··░░", "▒▒▓▓██"]);
}
