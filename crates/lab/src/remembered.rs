//! What several claims look at is made once in a process. Two that ask at the same time wait for one making,
//! and lend their threads to it meanwhile.

use crate::Context;
use regard::Result;
use regard_graph::Error;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, OnceLock};

type Slot<V> = Arc<Mutex<Option<Arc<V>>>>;

/// Things by their keys, each made at its first call.
pub struct Remembered<K, V> {
    slots: OnceLock<Mutex<HashMap<K, Slot<V>>>>,
}

impl<K: Eq + Hash, V> Remembered<K, V> {
    /// Nothing yet.
    pub const fn new() -> Self {
        Remembered { slots: OnceLock::new() }
    }

    /// The thing of this key, made if it is the first time.
    pub fn get(&self, context: &Context, key: K, make: impl FnOnce() -> Result<V>) -> Result<Arc<V>> {
        let broken = || {
            let what = "another claim broke while it made what this one needs";
            Error::invalid("claims", what, "run the claims again, and report it if it stays so")
        };
        let slot = {
            let mut slots = self.slots.get_or_init(Mutex::default).lock().map_err(|_| broken())?;
            slots.entry(key).or_default().clone()
        };
        let mut slot = match slot.try_lock() {
            Ok(slot) => slot,
            Err(_) => context.workers.waiting(|| slot.lock()).map_err(|_| broken())?,
        };
        match &*slot {
            Some(found) => Ok(found.clone()),
            None => Ok(slot.insert(Arc::new(make()?)).clone()),
        }
    }
}
