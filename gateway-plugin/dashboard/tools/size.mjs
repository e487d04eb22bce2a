// Fails when the built page is larger than it may be: 120 kB, gzipped, everything counted.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';

const MAX = 120_000;
const dist = new URL('../dist/', import.meta.url).pathname;
const files = readdirSync(dist, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
let sum = 0;
for (const entry of files) {
  const size = gzipSync(readFileSync(join(entry.parentPath ?? entry.path, entry.name)), { level: 9 }).length;
  console.log(`${String(size).padStart(8)} B gzipped  ${entry.name}`);
  sum += size;
}
console.log(`${String(sum).padStart(8)} B of ${MAX}`);
if (sum > MAX) {
  console.error(`the page is larger than ${MAX} B gzipped: leave something out`);
  process.exit(1);
}
