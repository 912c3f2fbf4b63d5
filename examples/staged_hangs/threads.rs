//! Hangs between threads: each holds the lock, or something else, and waits for another.

use std::sync::{Arc, Mutex, mpsc};
use std::thread::{Builder, JoinHandle};

use doclock::durable::{
    Durability, DurableOptions, Journal, JournalError, JournalWrite, StoredPart,
};
use doclock::lock::CancelToken;
use doclock::lock::keyed::KeyedLock;

use super::*;

/// Runs code in a thread with a name, which the table shows.
fn spawn<T: Send + 'static>(
    name: &str,
    code: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<JoinHandle<T>> {
    Builder::new().name(name.to_owned()).spawn(code)
}

fn named_store(name: &str) -> DataStore {
    DataStore::with_options(reporting().name(name))
}

/// A task keeps the lock while it waits for the answer of a service.
pub(super) fn slow_call(look: &mut Look<'_>) -> Result<(), Box<dyn Error>> {
    let store = store();
    let mut context = Context::from_waker(Waker::noop());
    let culprit = culprit!(line!() + 1);
    let book = |store: DataStore| store.request("request-17").label("pay").into_future();
    let booking = book(store.clone());
    let mut booking = Box::pin(async {
        let _booked = booking.await;
        std::future::pending::<()>().await;
    });
    assert!(booking.as_mut().poll(&mut context).is_pending());
    // The client of another request has gone away.
    let mut sibling = Box::pin(store.request("request-18").into_future());
    assert!(sibling.as_mut().poll(&mut context).is_pending());
    drop(sibling);
    look_beside_a_window(&store, || {
        look(&store, &[culprit]);
        drop(booking);
    })?;
    Ok(())
}

/// A thread with the lock of one store requests that of another, whose holder does the reverse.
pub(super) fn two_stores(look: &mut Look<'_>) -> Result<(), Box<dyn Error>> {
    let (page, index) = (named_store("page"), named_store("index"));
    page.register("index", &index);
    let token = CancelToken::new();
    let (locked, is_locked) = mpsc::channel();
    let (rebuilt, rebuilding, cancelled) = (index.clone(), page.clone(), token.clone());
    let rebuilds = spawn("rebuild", move || {
        let _rebuilt = rebuilt.lock("rebuild")?;
        let _ = locked.send(());
        until(|| has_waiter(&rebuilt));
        let request = rebuilding.request("rebuild").cancel_token(&cancelled);
        request.wait().map(drop)
    })?;
    is_locked.recv()?;
    let culprit = culprit!(line!() + 1);
    let keystroke = |page: &DataStore| page.request("ann").label("keystroke").wait();
    let (typed, searched) = (page.clone(), index);
    let types = spawn("typing", move || {
        let _typed = keystroke(&typed)?;
        // A hook writes the word into the search index.
        drop(searched.request("ann").label("index a word").wait()?);
        Ok::<(), LockError>(())
    })?;
    until(|| has_waiter(&page));
    look(&page, &[culprit]);
    token.cancel();
    let _ = rebuilds.join().expect("the rebuild does not panic");
    types.join().expect("the keystroke does not panic")?;
    Ok(())
}

/// A thread that has a mutex of the program requests the lock, whose holder wants the mutex.
pub(super) fn mutex(look: &mut Look<'_>) -> Result<(), Box<dyn Error>> {
    let store = store();
    let token = CancelToken::new();
    let cache = Arc::new(Mutex::new(0));
    let (locked, is_locked) = mpsc::channel();
    let (refreshing, is_refreshing) = mpsc::channel();
    let (typed, cached) = (store.clone(), Arc::clone(&cache));
    let types = spawn("typing", move || {
        let _typed = typed.request("ann").label("keystroke").wait()?;
        let _ = locked.send(());
        let _ = is_refreshing.recv();
        *cached.lock().expect("no holder panics") += 1;
        Ok::<(), LockError>(())
    })?;
    is_locked.recv()?;
    let culprit = culprit!(line!() + 1);
    let read = |store: &DataStore| store.request("cache");
    let (reading, cancelled) = (store.clone(), token.clone());
    let refreshes = spawn("cache-refresh", move || {
        let mut cached = cache.lock().expect("no holder panics");
        let read = read(&reading).cancel_token(&cancelled).wait();
        *cached += usize::from(read.is_ok());
    })?;
    until(|| has_waiter(&store));
    refreshing.send(())?;
    look(&store, &[culprit]);
    token.cancel();
    refreshes.join().expect("the refresh does not panic");
    types.join().expect("the keystroke does not panic")?;
    Ok(())
}

/// The holder is a job of a pool whose only thread waits for the lock.
pub(super) fn full_pool(look: &mut Look<'_>) -> Result<(), Box<dyn Error>> {
    type Job = Box<dyn FnOnce() + Send>;
    let store = store();
    let token = CancelToken::new();
    let (submit, jobs) = mpsc::channel::<Job>();
    let pool = spawn("pool-1", move || jobs.iter().for_each(|job| job()))?;
    let culprit = culprit!(line!() + 1);
    let export = store.request("export").label("export as PDF").wait()?;
    let (saved, cancelled) = (store.clone(), token.clone());
    submit.send(Box::new(move || {
        let request = saved.request("autosave").cancel_token(&cancelled);
        drop(request.wait());
    }))?;
    // The second half of the export, behind the autosave in the pool.
    submit.send(Box::new(move || drop(export)))?;
    until(|| has_waiter(&store));
    look(&store, &[culprit]);
    token.cancel();
    drop(submit);
    pool.join().expect("no job panics");
    Ok(())
}

/// A thread with the lock waits until all saves have ended, of which one waits for the lock.
pub(super) fn shutdown(look: &mut Look<'_>) -> Result<(), Box<dyn Error>> {
    let store = store();
    let token = CancelToken::new();
    let saves: KeyedLock<&str> = KeyedLock::new();
    store.register("saves", &saves);
    let culprit = culprit!(line!() + 1);
    let close = |store: &DataStore| store.request("close").label("shutdown").wait();
    let (closed, ending) = (store.clone(), saves.clone());
    let reserved = saves.reserve(&"page-1")?;
    let (locked, is_locked) = mpsc::channel();
    let closes = spawn("shutdown", move || {
        let _closed = close(&closed)?;
        let _ = locked.send(());
        ending.request_drain("close").no_timeout().wait()
    })?;
    is_locked.recv()?;
    let (saved, cancelled) = (store.clone(), token.clone());
    let save = spawn("autosave", move || {
        let request = saved.request("autosave").cancel_token(&cancelled);
        let _ = request.wait();
        drop(reserved);
    })?;
    until(|| has_waiter(&store));
    look(&store, &[culprit]);
    token.cancel();
    save.join().expect("the save does not panic");
    closes.join().expect("the shutdown does not panic")?;
    Ok(())
}

/// A journal on a disk that does not answer.
struct Stuck(mpsc::Receiver<()>);

impl Journal for Stuck {
    fn load(
        &mut self,
        _: &mut dyn FnMut(StoredPart<'_>) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        Ok(())
    }

    fn write(&mut self, write: &JournalWrite) -> Result<(), JournalError> {
        // The open writes, too.
        if write.block.is_some() {
            let _ = self.0.recv();
        }
        Ok(())
    }
}

/// The journal has more to write than its limit, and the disk does not answer.
pub(super) fn slow_disk(look: &mut Look<'_>) -> Result<(), Box<dyn Error>> {
    let (answers, disk) = mpsc::channel();
    let options = DurableOptions::new().durability(Durability::Later);
    let options = options.unwritten_limit(0).store(reporting());
    let store = DataStore::open_journal(Stuck(disk), options)?;
    let note = || create(text_node("paragraph", "Hello"));
    let manager = TransactionManager::new(store.clone());
    // The journal takes the first, and the second waits for it.
    manager.execute(note())?;
    manager.execute(note())?;
    look_beside_a_window(&store, || {
        look(&store, &[]);
        drop(answers);
    })?;
    Ok(())
}
