// Format: numbers, sizes, times and values as readable text.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export const count = (n) => whole.format(n);
export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

/** A score with three decimals, or three significant digits if it is very small or large. */
export function score(x) {
  if (x === null || x === undefined) return "";
  const size = Math.abs(x);
  const text = size !== 0 && (size < 0.01 || size >= 1e5) ? x.toPrecision(3) : x.toFixed(3);
  return text.replace("-", "\u2212");
}

export function percent(share) {
  const at = 100 * share;
  return `${at > 99 && at < 100 ? (Math.floor(at * 10) / 10).toFixed(1) : at.toFixed(at < 10 && at > 0 ? 1 : 0)}%`;
}

export function bytes(n) {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let at = 0;
  while (n >= 1000 && at < units.length - 1) { n /= 1000; at += 1; }
  return `${n.toFixed(at && n < 100 ? 1 : 0)} ${units[at]}`;
}

export function seconds(n) {
  if (n < 90) return plural(Math.round(n), "second");
  if (n < 5400) return plural(Math.round(n / 60), "minute");
  if (n < 129600) return plural(Math.round(n / 3600), "hour");
  if (n < 730 * 86400) return plural(Math.round(n / 86400), "day");
  return plural(Math.round(n / (365.25 * 86400)), "year");
}

export const ms = (x) => (x === null ? "none" : `${x < 10 ? x.toFixed(2) : count(x)} ms`);

/** The value of an attribute as one line of text. */
export function value(x) {
  if (x === null || x === undefined) return "";
  if (Array.isArray(x)) return x.map(value).join(", ");
  if (typeof x === "boolean") return x ? "yes" : "no";
  if (typeof x === "number" && !Number.isInteger(x)) return String(Number(x.toPrecision(6)));
  return typeof x === "object" ? JSON.stringify(x) : String(x);
}

/** An attribute among others; a boolean is shown by its name. */
export function told(name, x) {
  if (typeof x !== "boolean") return value(x);
  return x ? name.replaceAll("_", " ") : `not ${name.replaceAll("_", " ")}`;
}

/** The name of an attribute or signal as a label. */
export const label = (name) => name.replaceAll("_", " ").replace(/^./, (first) => first.toUpperCase());
