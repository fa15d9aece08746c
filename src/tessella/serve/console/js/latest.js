// Latest: runs one job at a time. Calls made meanwhile lead to one more run afterwards, with the newest state.

export function latest(job) {
  let running = false;
  let again = false;
  return async function run() {
    if (running) { again = true; return; }
    running = true;
    try {
      do {
        again = false;
        await job();
      } while (again);
    } finally {
      running = false;
    }
  };
}

/** Debounce: run `job` once calls have stopped for `wait` milliseconds; `cancel` drops the pending run. */
export function settled(job, wait = 200) {
  let timer = 0;
  const run = () => {
    clearTimeout(timer);
    timer = setTimeout(job, wait);
  };
  run.cancel = () => clearTimeout(timer);
  return run;
}
