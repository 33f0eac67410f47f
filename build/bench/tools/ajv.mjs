// Time of one check of params.json against the compiled schema.json, in nanoseconds, reading
// the text included as it is with us.
import Ajv from 'ajv/dist/2020.js';
import { readFileSync } from 'node:fs';

const dir = process.argv[2];
const validate = new Ajv({ useDefaults: true, allErrors: true }).compile(JSON.parse(readFileSync(dir + '/schema.json', 'utf8')));
const text = readFileSync(dir + '/params.json', 'utf8');
let ok = true;
for (let i = 0; i < 20000; i++) ok &&= validate(JSON.parse(text));
const n = 20000;
const began = process.hrtime.bigint();
for (let i = 0; i < n; i++) ok &&= validate(JSON.parse(text));
if (!ok) throw new Error('not valid');
console.log(Number(process.hrtime.bigint() - began) / n);
