// Latest: runs one job at a time. What is asked meanwhile runs afterwards, once, with the newest wishes.

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

/** A call that waits until others have stopped coming; `cancel` calls it off. */
export function settled(job, wait = 200) {
  let timer = 0;
  const run = () => {
    clearTimeout(timer);
    timer = setTimeout(job, wait);
  };
  run.cancel = () => clearTimeout(timer);
  return run;
}
