use super::*;
use crate::check::fault;
use crate::escaped;

#[test]
fn a_chart_draws_what_it_is_given() {
    let chart = Chart::new("Width < 3", Axis::new("d"), Axis::log("σ"))
        .line("theory", [(0.0, 1.0), (1.0, 10.0)])
        .estimates("measured", [(0.5, Measured { value: 3.0, low: 2.0, high: 4.0 })])
        .bars("share", [(0.0, 2.0), (1.0, f64::NAN)])
        .band("", [(0.0, 1.0, 2.0), (1.0, 2.0, 3.0)]);
    let svg = chart.svg();
    assert_eq!(fault(&svg), None);
    assert!(svg.contains("Width &lt; 3") && !svg.contains("NaN"), "{svg}");
    for (part, count) in [("<circle", 1), ("whisker", 1), ("<rect", 1), ("s3 band", 1), ("s0 line", 1)] {
        assert_eq!(svg.matches(part).count(), count, "{part}: {svg}");
    }
    let legend = chart.legend();
    assert_eq!(legend.len(), 3, "what has no name is not listed");
    assert_eq!(legend[1], ("s1 point".to_string(), "measured"));
    let captioned = chart.captioned(escaped);
    assert_eq!(fault(&captioned), None);
    assert!(captioned.contains("<i class=\"key s1 point\"></i>measured</li>"), "{captioned}");
}

#[test]
fn a_chart_of_anything_is_a_picture() {
    let (nan, infinite) = (f64::NAN, f64::INFINITY);
    let lots: [Vec<(f64, f64)>; 9] = [
        vec![],
        vec![(1.0, nan), (nan, 1.0), (infinite, -infinite)],
        vec![(1.0, 0.0)],
        vec![(1.0, 5.0), (2.0, 5.0)],
        vec![(1.0, 5.0), (2.0, nan), (3.0, 4.0)],
        vec![(-1.0, -5.0), (0.0, -7.5)],
        vec![(f64::MIN, f64::MAX), (f64::MAX, f64::MIN)],
        vec![(0.0, 5e-324), (5e-324, 0.0)],
        (0..5000).map(|i| (i.into(), if i % 7 == 0 { nan } else { f64::from(i % 7) })).collect(),
    ];
    for points in lots {
        for (x, y) in [(Axis::new("a<b"), Axis::new("")), (Axis::log(""), Axis::log("\"&'"))] {
            let chart = Chart::new("<&\">\u{1}", x, y)
                .line("l<", points.clone())
                .dotted()
                .dashed("d", points.clone())
                .points("p", points.clone())
                .bars("b", points.clone())
                .band("between", points.iter().map(|&(x, y)| (x, y - 1.0, y + 1.0)));
            for chart in [chart.clone(), chart.small()] {
                let svg = chart.svg();
                assert_eq!(fault(&svg), None, "{points:.80?}");
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
                assert!(svg.len() < 1_400_000, "{}", svg.len());
            }
        }
    }
}

#[test]
fn a_line_has_gaps_where_there_is_nothing() {
    let chart = |points: Vec<(f64, f64)>| Chart::new("", Axis::new(""), Axis::new("")).line("", points);
    let svg = chart(vec![(0.0, 1.0), (1.0, 2.0), (2.0, f64::NAN), (3.0, 1.0), (4.0, 2.0)]).svg();
    let line = svg.split("s0 line\" d=\"").nth(1).unwrap().split('"').next().unwrap();
    assert_eq!((line.matches('M').count(), line.matches('L').count()), (2, 2), "{line}");
    assert!(chart(vec![]).is_empty() && chart(vec![(1.0, f64::NAN)]).is_empty());
    assert!(!chart(vec![(1.0, 1.0)]).is_empty());
    assert!(chart(vec![(1.0, 1.0)]).svg().contains("<circle"), "one point is seen");
}

#[test]
fn many_points_become_a_mean_in_its_band() {
    let points = (0..6000).map(|i| (i.into(), if i % 2 == 0 { 1.0 } else { 3.0 }));
    let svg = Chart::new("", Axis::new(""), Axis::new("")).line("loss", points).svg();
    assert_eq!(fault(&svg), None);
    assert_eq!(svg.matches("s0 band").count(), 1);
    let line = svg.split("s0 line\" d=\"").nth(1).unwrap().split('"').next().unwrap();
    assert_eq!(line.matches('L').count(), 599);
    assert!(svg.len() < 60_000, "{}", svg.len());
}

#[test]
fn the_first_and_the_last_bar_are_whole() {
    let svg = Chart::new("", Axis::new(""), Axis::new("")).bars("", [(1.0, 2.0), (2.0, -1.0)]).svg();
    let lefts = svg.split("bar\" x=\"").skip(1).map(|rest| rest.split('"').next().unwrap());
    let lefts: Vec<f64> = lefts.map(|x| x.parse().unwrap()).collect();
    assert!(lefts[0] >= 54.0 && lefts[1] > lefts[0], "{lefts:?}");
}
