// After the build: compresses what was built, so that whoever serves it need not, and fails when all of it together is
// larger than it may be.
import { copyFileSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';

const MAX = 120_000;
const dist = new URL('../dist/', import.meta.url).pathname;
// What the bundle contains of others goes with its licence.
copyFileSync(new URL('../node_modules/uplot/LICENSE', import.meta.url), join(dist, 'assets/uplot-license.txt'));
const files = readdirSync(dist, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile() && !entry.name.endsWith('.gz'));
let sum = 0;
for (const entry of files) {
  const path = join(entry.parentPath ?? entry.path, entry.name);
  const packed = gzipSync(readFileSync(path), { level: 9 });
  writeFileSync(`${path}.gz`, packed);
  console.log(`${String(packed.length).padStart(8)} B gzipped  ${entry.name}`);
  sum += packed.length;
}
console.log(`${String(sum).padStart(8)} B of ${MAX}`);
if (sum > MAX) {
  console.error(`the page is larger than ${MAX} B gzipped: leave something out`);
  process.exit(1);
}
