//! What the kernels of a source need, read from the compiler's log.

/// What one kernel needs of a multiprocessor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// The kernel.
    pub kernel: String,
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of a thread that did not fit into registers: stores and loads.
    pub spills: (u32, u32),
    /// Bytes of a thread's stack: arrays whose index is not known when compiling land here.
    pub stack: u32,
    /// Bytes of static shared memory of a block.
    pub shared: u32,
}

/// What every kernel in a log needs, in its order.
pub fn resources(log: &str) -> Vec<Resources> {
    let mut found: Vec<Resources> = Vec::new();
    for line in log.lines() {
        if let Some(name) =
            line.split("Compiling entry function '").nth(1).and_then(|rest| rest.split('\'').next())
        {
            found.push(Resources { kernel: name.into(), ..Resources::default() });
        }
        let Some(last) = found.last_mut() else { continue };
        if line.contains("bytes stack frame") {
            last.stack = before(line, " bytes stack frame");
            last.spills = (before(line, " bytes spill stores"), before(line, " bytes spill loads"));
        }
        if line.contains("Used ") && line.contains(" registers") {
            last.registers = before(line, " registers");
            last.shared = before(line, " bytes smem");
        }
    }
    found
}

/// The number before these words; 0 where they are not.
fn before(line: &str, words: &str) -> u32 {
    let Some(at) = line.find(words) else { return 0 };
    let digits = line[..at].rsplit(|c: char| !c.is_ascii_digit()).next().unwrap_or("");
    digits.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_read() {
        let log = "ptxas info    : 0 bytes gmem\n\
            ptxas info    : Compiling entry function 'rows' for 'sm_90a'\n\
            ptxas info    : Function properties for rows\n\
            ptxas         .     16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n\
            ptxas info    : Used 40 registers, used 1 barriers, 16 bytes stack size, 128 bytes smem\n\
            ptxas info    : Compile time = 4.454 ms\n\
            ptxas info    : Compiling entry function 'map' for 'sm_90a'\n\
            ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n\
            ptxas info    : Used 15 registers, used 0 barriers\n";
        let [rows, map] = &resources(log)[..] else { panic!("two kernels") };
        let expected =
            Resources { kernel: "rows".into(), registers: 40, spills: (8, 12), stack: 16, shared: 128 };
        assert_eq!(*rows, expected);
        assert_eq!((map.kernel.as_str(), map.registers, map.shared, map.spills), ("map", 15, 0, (0, 0)));
    }
}
