//! The colours: one theme for the light and one for the dark, as variables of CSS. Series are told apart by
//! people who see red and green, green and red, or blue and yellow alike, too, and all of them stand out from
//! the paper; the tests measure both.

/// A colour of the theme: its variable, in the light, in the dark.
type Colour = (&'static str, &'static str, &'static str);

/// The colours of series, in their order.
pub const SERIES: [Colour; 6] = [
    ("s0", "#114cbf", "#4f83ea"),
    ("s1", "#b8501f", "#c9601c"),
    ("s2", "#124317", "#4cc489"),
    ("s3", "#590b64", "#d39bf5"),
    ("s4", "#bd871c", "#fcdd5b"),
    ("s5", "#3c93ac", "#a5f2f8"),
];

/// Paper, cards on it, ink, quieter ink, rules, links, and what heat maps are made of.
pub const PAPER: [Colour; 9] = [
    ("page", "#fbfaf8", "#14171b"),
    ("card", "#ffffff", "#1c2026"),
    ("ink", "#1d2126", "#e6e8eb"),
    ("quiet", "#626b76", "#98a1ac"),
    ("rule", "#e2dfd9", "#323841"),
    ("link", "#1a56b0", "#7fb2ff"),
    ("ground", "#f4f6fa", "#212835"),
    ("more", "#08306b", "#9cc4ff"),
    ("less", "#a63603", "#ffa477"),
];

/// The variables of both themes.
pub(crate) fn variables() -> String {
    let all = || PAPER.iter().chain(&SERIES);
    let light: String = all().map(|(name, light, _)| format!("--{name}:{light};")).collect();
    let dark: String = all().map(|(name, _, dark)| format!("--{name}:{dark};")).collect();
    let series: String = SERIES.iter().map(|(name, ..)| format!(".{name}{{color:var(--{name})}}")).collect();
    format!(
        ":root{{color-scheme:light dark;{light}}}\n@media (prefers-color-scheme:dark){{:root{{{dark}}}}}\n{series}\n"
    )
}

/// The colour of a cell of a heat map on white paper, from nothing at 0 to all at 1.
pub(crate) fn mixed(strength: f64, less: bool) -> [u8; 3] {
    let (from, to) = ([250.0, 250.0, 252.0], if less { [166.0, 54.0, 3.0] } else { [8.0, 48.0, 107.0] });
    let mix = |i: usize| (from[i] + (to[i] - from[i]) * strength.clamp(0.0, 1.0)).round() as u8;
    [mix(0), mix(1), mix(2)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Red, green and blue of light, each from 0 to 1.
    fn light(hex: &str) -> [f64; 3] {
        [1, 3, 5].map(|at| {
            let c = f64::from(u8::from_str_radix(&hex[at..at + 2], 16).unwrap()) / 255.0;
            if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
        })
    }

    /// The contrast of the accessibility guidelines of the Web.
    fn contrast(a: &str, b: &str) -> f64 {
        let luminance = |hex| {
            let [r, g, b] = light(hex);
            0.2126 * r + 0.7152 * g + 0.0722 * b
        };
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    /// A colour in OKLab, where distances are about those that eyes see.
    fn oklab([r, g, b]: [f64; 3]) -> [f64; 3] {
        let l = (0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b).cbrt();
        let m = (0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b).cbrt();
        let s = (0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b).cbrt();
        [
            0.2104542553 * l + 0.7936177850 * m - 0.0040720468 * s,
            1.9779984951 * l - 2.4285922050 * m + 0.4505937099 * s,
            0.0259040371 * l + 0.7827717662 * m - 0.8086757660 * s,
        ]
    }

    /// How light arrives in eyes that have all cones, or lack those for long, middle or short waves (Machado,
    /// Oliveira and Fernandes 2009, severity 1).
    const EYES: [[[f64; 3]; 3]; 4] = [
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
    ];

    fn seen(hex: &str, eyes: &[[f64; 3]; 3]) -> [f64; 3] {
        let light = light(hex);
        oklab(eyes.map(|row| row.iter().zip(light).map(|(a, b)| a * b).sum::<f64>().clamp(0.0, 1.0)))
    }

    fn distance(a: [f64; 3], b: [f64; 3]) -> f64 {
        a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
    }

    #[test]
    fn all_eyes_tell_series_apart() {
        for eyes in &EYES {
            for (i, a) in SERIES.iter().enumerate() {
                for b in &SERIES[..i] {
                    for (a, b) in [(a.1, b.1), (a.2, b.2)] {
                        let far = distance(seen(a, eyes), seen(b, eyes));
                        assert!(far >= 0.1, "{a} and {b}: {far:.3}");
                    }
                }
            }
        }
    }

    #[test]
    fn everything_stands_out_from_its_paper() {
        let paper = |name: &str| PAPER.iter().find(|colour| colour.0 == name).unwrap();
        for ground in [paper("page"), paper("card")] {
            for (names, least) in [(["ink", "ink", "ink"], 12.0), (["quiet", "link", "more"], 4.5)] {
                for colour in names.map(paper) {
                    let both = [contrast(colour.1, ground.1), contrast(colour.2, ground.2)];
                    assert!(both.iter().all(|&c| c >= least), "{} on {}: {both:.2?}", colour.0, ground.0);
                }
            }
            for colour in &SERIES {
                let both = [contrast(colour.1, ground.1), contrast(colour.2, ground.2)];
                assert!(both.iter().all(|&c| c >= 3.0), "{} on {}: {both:.2?}", colour.0, ground.0);
            }
        }
    }
}
