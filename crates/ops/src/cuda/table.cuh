// One launch for many parameters: a table says where each lies and which blocks are its own.

#define TABLE_ENTRIES 64

struct Entry {
    f32* at[4];
    u64* fault;
    u32 count, first;
};
struct Table {
    Entry all[TABLE_ENTRIES];
};

// The entry that a block belongs to: the last whose first block is not after it.
DEVICE u32 entry_of(const Table& table, u32 many, u32 block) {
    u32 low = 0, high = many;
    while (high - low > 1) {
        u32 middle = (low + high) / 2;
        if (table.all[middle].first <= block) low = middle;
        else high = middle;
    }
    return low;
}
