//! The date for templates that write one (`strftime_now`): the directives of C's strftime that name days and
//! times, in English and in UTC, since a program alone does not know where it is.

/// A moment, as seconds since 1970 in UTC, in the form of `format`; the directive that is not known, if there
/// is one.
pub(super) fn formatted(seconds: i64, format: &str) -> Result<String, String> {
    let (days, clock) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let weekday = (days + 4).rem_euclid(7) as usize; // 1 January 1970 was a Thursday.
    let (hour, minute, second) = (clock / 3600, clock / 60 % 60, clock % 60);
    let mut text = String::new();
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            text.push(letter);
            continue;
        }
        let mut directive = letters.next();
        let plain = directive == Some('-'); // without a zero in front
        if plain {
            directive = letters.next();
        }
        let two = |number: i64| if plain { number.to_string() } else { format!("{number:02}") };
        text += &match directive {
            Some('d') => two(day),
            Some('m') => two(month),
            Some('H') => two(hour),
            Some('I') => two((hour + 11) % 12 + 1),
            Some('M') => two(minute),
            Some('S') => two(second),
            Some('y') => two(year.rem_euclid(100)),
            Some('j') => {
                let number = days - days_of(year) + 1;
                if plain { number.to_string() } else { format!("{number:03}") }
            }
            Some('Y') => year.to_string(),
            Some('B') => MONTHS[month as usize - 1].to_owned(),
            Some('b') => MONTHS[month as usize - 1][..3].to_owned(),
            Some('A') => DAYS[weekday].to_owned(),
            Some('a') => DAYS[weekday][..3].to_owned(),
            Some('p') => (if hour < 12 { "AM" } else { "PM" }).to_owned(),
            Some('e') => format!("{day:2}"),
            Some('F') => format!("{year}-{month:02}-{day:02}"),
            Some('T') => format!("{hour:02}:{minute:02}:{second:02}"),
            Some('%') => "%".to_owned(),
            other => return Err(format!("%{}", other.map(String::from).unwrap_or_default())),
        };
    }
    Ok(text)
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// Days from 1 January 1970 to the first day of a year.
fn days_of(year: i64) -> i64 {
    let before = year - 1;
    let leaps = before.div_euclid(4) - before.div_euclid(100) + before.div_euclid(400);
    (year - 1970) * 365 + leaps - 477 // 477 leap days before 1970
}

fn is_leap(year: i64) -> bool {
    (year % 4 == 0 && year % 100 != 0) || year % 400 == 0
}

/// Year, month and day of a number of days since 1970.
fn civil(days: i64) -> (i64, i64, i64) {
    let mut year = 1970 + days.div_euclid(366);
    while days_of(year + 1) <= days {
        year += 1;
    }
    let mut left = days - days_of(year);
    let february = if is_leap(year) { 29 } else { 28 };
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if left < length {
            break;
        }
        left -= length;
        month += 1;
    }
    (year, month, left + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(formatted(0, "%A %d %B %Y %H:%M:%S").unwrap(), "Thursday 01 January 1970 00:00:00");
        // 29 February 2024, 13:05:09
        assert_eq!(
            formatted(1_709_211_909, "%d %b %Y, %-I:%M %p, day %j, %a").unwrap(),
            "29 Feb 2024, 1:05 PM, day 060, Thu"
        );
        assert_eq!(
            formatted(1_735_689_599, "%F %T %y %-d/%-m %e").unwrap(),
            "2024-12-31 23:59:59 24 31/12 31"
        );
        assert_eq!(formatted(1_735_689_600, "%F, 100%%").unwrap(), "2025-01-01, 100%");
        assert_eq!(formatted(951_782_400, "%F").unwrap(), "2000-02-29");
        assert_eq!(formatted(-1, "%F %T").unwrap(), "1969-12-31 23:59:59");
        assert_eq!(formatted(0, "%Q").unwrap_err(), "%Q");
        assert_eq!(formatted(0, "%").unwrap_err(), "%");
    }
}
