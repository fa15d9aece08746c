// Values: converts attributes and signals to the text of a form field and back, by the kind of their column.

const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

/** A value as the text of a field. */
export function written(value) {
  if (value === null || value === undefined) return "";
  if (Array.isArray(value)) return value.join(", ");
  return typeof value === "number" ? shortest(value) : String(value);
}

/** A number in the fewest digits that read back as the same float64, or the same float32 if it is one. */
function shortest(value) {
  if (Number.isInteger(value) || Math.fround(value) !== value) return String(value);
  for (let digits = 1; digits < 10; digits += 1) {
    const text = String(Number(value.toPrecision(digits)));
    if (Math.fround(Number(text)) === value) return text;
  }
  return String(value);
}

/** Seconds since 1970 as a date and time; null if out of range. */
export function moment(seconds) {
  const time = new Date(1000 * seconds);
  return Number.isNaN(time.getTime()) ? null : time.toISOString().slice(0, 19);
}

/** The text of a field as a value; an empty field is a missing value. */
export function read(text, kind, name) {
  const plain = text.trim();
  if (kind.startsWith("several")) {
    const parts = plain.split(",").map((part) => part.trim()).filter(Boolean);
    return kind === "several" ? parts : parts.map((part) => number(part, name));
  }
  if (plain === "") return null;
  if (kind === "number") return number(plain, name);
  if (kind === "boolean") return plain === "true";
  return plain;
}

export function number(text, name) {
  const value = Number(text);
  if (!NUMBER.test(text) || !Number.isFinite(value)) throw new Error(`${name} is ${JSON.stringify(text)}, but must be a number.`);
  if (Number.isInteger(value) && !Number.isSafeInteger(value)) {
    throw new Error(`${name} is ${text}, which a browser cannot represent exactly; change it through the API.`);
  }
  return value;
}
