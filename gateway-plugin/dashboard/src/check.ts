// Checks of what came from elsewhere, to the last element: everything that a panel will use is what its type says it is.
//
// A check gives what is wrong, beginning with where (`.gateways[2].name is not text`), or `null`. It makes no text unless
// something is wrong, for it sees every cell of every frame.
//
// Not here: what may be in a field but makes no sense; panels bear that.

export type Check = (value: unknown) => string | null;

export const text: Check = (value) => (typeof value === 'string' ? null : wrong(value, 'text'));
export const yesNo: Check = (value) => (typeof value === 'boolean' ? null : wrong(value, 'true or false'));
export const anyNumber: Check = (value) => (Number.isFinite(value) ? null : wrong(value, 'a finite number'));
export const amount: Check = (value) => (Number.isFinite(value) && (value as number) >= 0 ? null : wrong(value, 'a finite number from 0'));
/** A moment, or a number that counts: exact, or it could neither be ordered nor stepped through. */
export const whole: Check = (value) => (Number.isSafeInteger(value) && (value as number) >= 0 ? null : wrong(value, 'a whole number from 0 to 2^53'));

export function maybe(of: Check): Check {
  return (value) => (value === null ? null : of(value));
}

/** A field that frames made before there was such a field do not have. */
export function later(of: Check): Check {
  return (value) => (value === undefined ? null : of(value));
}

export function list(of: Check): Check {
  return (value) => {
    if (!Array.isArray(value)) return wrong(value, 'a list');
    for (let at = 0; at < value.length; at += 1) {
      const found = of(value[at]);
      if (found !== null) return `[${at}]${found}`;
    }
    return null;
  };
}

/** An array with one meaning for each place; more places may come. */
export function row(...of: Check[]): Check {
  return (value) => {
    if (!Array.isArray(value)) return wrong(value, 'a row');
    for (let at = 0; at < of.length; at += 1) {
      const found = of[at]?.(value[at]) ?? null;
      if (found !== null) return `[${at}]${found}`;
    }
    return null;
  };
}

/** An object with these fields; more may come. */
export function fields(of: Record<string, Check>): Check {
  const wanted = Object.entries(of);
  return (value) => {
    if (!isObject(value)) return wrong(value, 'an object');
    for (const [name, check] of wanted) {
      const found = check(value[name]);
      if (found !== null) return `.${name}${found}`;
    }
    return null;
  };
}

/** An object with any names, all of one kind. */
export function each(of: Check): Check {
  return (value) => {
    if (!isObject(value)) return wrong(value, 'an object');
    for (const [name, one] of Object.entries(value)) {
      const found = of(one);
      if (found !== null) return `.${name.slice(0, 40)}${found}`;
    }
    return null;
  };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function wrong(value: unknown, wanted: string): string {
  return value === undefined ? ' is missing' : ` is not ${wanted}`;
}
