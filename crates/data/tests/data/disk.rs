//! What is on the disk when writing goes wrong: the old file, and nothing else.

use crate::scratch::Scratch;
use crate::text;
use regard_data::{Checkpoint, Data, Save, SaveOptions, save_file, save_folder, whole};
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

static X: [f32; 100_000] = [1.0; 100_000];

fn large() -> Save<'static> {
    Save { name: "x", shape: &[100_000], data: Data::F32(&X) }
}

#[test]
fn an_error_in_the_middle_leaves_the_old_file() {
    let scratch = Scratch::new();
    let path = scratch.put("a.json", "old");
    let result = whole::write(&path, |file| {
        file.write_all(b"half of the n")?;
        Err(io::Error::from(io::ErrorKind::StorageFull))
    });
    assert_eq!(
        text(result, &scratch),
        "cannot write a.json: no storage space; make room on that disk or choose another; what was there before is \
         unchanged"
    );
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
    assert_eq!(scratch.names(), ["a.json"]);
    whole::write(&path, |file| file.write_all(b"new")).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"new");
    assert_eq!(scratch.names(), ["a.json"]);
}

#[cfg(unix)]
#[test]
fn a_file_is_no_more_open_than_what_it_comes_from() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new();
    let (secret, shared) = (scratch.put("secret", "s"), scratch.put("shared", "p"));
    let set = |path: &Path, mode: u32| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    set(&secret, 0o600);
    set(&shared, 0o640);
    let copy = scratch.join("copy");
    let write = |path: &Path, from: &[&Path]| {
        let from: Vec<_> = from.iter().map(|path| path.to_path_buf()).collect();
        whole::write_for(path, whole::Access::of(&from), |file| file.write_all(b"new"))
    };
    write(&copy, &[&shared, &secret]).unwrap();
    assert_eq!(mode(&copy), 0o600);
    // What takes the place of a file takes over who may read it.
    whole::write(&secret, |file| file.write_all(b"new")).unwrap();
    assert_eq!(mode(&secret), 0o600);
    write(&shared, &[]).unwrap();
    assert_eq!(mode(&shared) & 0o137, 0, "{:o}", mode(&shared));
    let folder = whole::write_for(scratch.path(), whole::Access::default(), |file| file.write_all(b"new"));
    assert_eq!(text(folder, &scratch), "DIR: is a folder; name a file to write");
}

#[test]
fn names_that_cannot_be_written_are_refused() {
    let scratch = Scratch::new();
    scratch.put("file", "");
    std::fs::create_dir(scratch.join("folder")).unwrap();
    let save =
        |name: &str| text(save_file(scratch.join(name), &[large()], &SaveOptions::default()), &scratch);
    assert_eq!(
        save("no/x.safetensors"),
        "cannot write no/x.safetensors: No such file or directory (os error 2); check the path"
    );
    assert_eq!(
        save("file/x.safetensors"),
        "cannot write file/x.safetensors: Not a directory (os error 20); a part of the path is a file, not a folder"
    );
    assert_eq!(save("folder"), "folder: is a folder; name a file to write");
    assert!(
        text(save_folder(scratch.join("file"), &[large()], &SaveOptions::default()), &scratch)
            .contains("file: ")
    );
    assert_eq!(scratch.names(), ["file", "folder"]);
}

#[cfg(unix)]
#[test]
fn an_unwritable_folder_is_an_error() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new();
    save_folder(scratch.path(), &[large()], &SaveOptions::default()).unwrap();
    std::fs::set_permissions(scratch.path(), std::fs::Permissions::from_mode(0o555)).unwrap();
    let probe = std::fs::write(scratch.join("probe"), "");
    let result = save_folder(scratch.path(), &[], &SaveOptions::default());
    std::fs::set_permissions(scratch.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    if probe.is_ok() {
        println!("skipped: this user may write everywhere (root), so that no permission can be missing");
        return;
    }
    assert_eq!(
        text(result, &scratch),
        "cannot write model.safetensors: Permission denied (os error 13); check who owns it and what its permissions \
         allow"
    );
    assert!(Checkpoint::open(scratch.path()).unwrap().verify().unwrap());
}

/// Fills a disk of 256 KiB: runs itself again in a namespace of its own, where anybody may mount one.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_leaves_the_old_checkpoint() {
    const INSIDE: &str = "REGARD_TEST_SMALL_DISK";
    if let Ok(disk) = std::env::var(INSIDE) {
        let disk = Path::new(&disk);
        let small = Save { name: "x", shape: &[1000], data: Data::F32(&X[..1000]) };
        let saved = save_folder(disk, &[small], &SaveOptions::default()).unwrap();
        let huge: Vec<Save> = ["a", "b", "c"].map(|name| Save { name, ..large() }).into_iter().collect();
        for shard_bytes in [None, Some(100_000)] {
            let options = SaveOptions { shard_bytes, ..SaveOptions::default() };
            let error = save_folder(disk, &huge, &options).unwrap_err().to_string();
            assert!(error.contains("os error 28); make room on that disk"), "{error}");
            let old = Checkpoint::open(disk).unwrap();
            assert_eq!(old.checksum(), saved.digest);
            assert!(old.verify().unwrap());
            let left: Vec<_> = std::fs::read_dir(disk).unwrap().map(|i| i.unwrap().file_name()).collect();
            assert_eq!(left, ["model.safetensors"]);
        }
        println!("the disk was full twice");
        return;
    }
    let scratch = Scratch::new();
    let script = "mount -t tmpfs -o size=256k none \"$1\" || exit 99; exec \"$2\" --exact \
                  disk::a_full_disk_leaves_the_old_checkpoint --nocapture";
    let run = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"])
        .arg(scratch.path())
        .arg(std::env::current_exe().unwrap())
        .env(INSIDE, scratch.path())
        .output();
    match run {
        Ok(output) if output.status.success() => {
            let message = String::from_utf8_lossy(&output.stdout);
            assert!(message.contains("the disk was full twice"), "{message}");
        }
        Ok(output) if output.status.code() == Some(101) => {
            panic!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        }
        _ => println!("skipped: a small disk of one's own cannot be mounted here (unshare)"),
    }
}

/// Runs itself again as a writer that stops in the middle, and kills it.
#[test]
fn a_killed_writer_leaves_the_old_file() {
    const INSIDE: &str = "REGARD_TEST_KILLED_WRITER";
    if let Ok(path) = std::env::var(INSIDE) {
        let never = whole::write(Path::new(&path), |file| {
            file.write_all(b"half")?;
            println!("half is written");
            io::stdout().flush()?;
            std::thread::sleep(std::time::Duration::from_secs(60));
            Ok(())
        });
        panic!("nobody killed the writer: {never:?}");
    }
    let scratch = Scratch::new();
    let path = scratch.put("model.safetensors", "old");
    let mut writer = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "disk::a_killed_writer_leaves_the_old_file", "--nocapture"])
        .env(INSIDE, &path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut message = Vec::new();
    let mut out = writer.stdout.take().unwrap();
    while !String::from_utf8_lossy(&message).contains("half is written") {
        let mut byte = [0];
        assert_eq!(out.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&message));
        message.push(byte[0]);
    }
    writer.kill().unwrap();
    writer.wait().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
    let names = scratch.names();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names[0].starts_with(".model.safetensors.") && names[0].ends_with(".partial"), "{names:?}");

    // What was left is swept by a later writer, once it is too old to belong to a living one.
    let left = std::fs::File::options().write(true).open(scratch.join(&names[0])).unwrap();
    whole::write(&path, |file| file.write_all(b"new")).unwrap();
    assert_eq!(scratch.names().len(), 2, "a young one may have a living writer");
    left.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(7200)).unwrap();
    whole::write(&path, |file| file.write_all(b"newer")).unwrap();
    assert_eq!(scratch.names(), ["model.safetensors"]);
    assert_eq!(std::fs::read(&path).unwrap(), b"newer");
}

#[test]
fn two_writers_leave_one_whole_file() {
    let scratch = Scratch::new();
    let path = scratch.join("x");
    std::thread::scope(|scope| {
        for letter in [b'a', b'b', b'c'] {
            let path = &path;
            scope.spawn(move || {
                for _ in 0..20 {
                    whole::write(path, |file| (0..50).try_for_each(|_| file.write_all(&[letter; 100])))
                        .unwrap();
                }
            });
        }
    });
    let bytes = std::fs::read(&path).unwrap();
    assert!(bytes.len() == 5000 && bytes.iter().all(|b| *b == bytes[0]));
    assert_eq!(scratch.names(), ["x"]);
}
