// Decisions a second of casbin with as many allow rules as the gate has grants: subject,
// host and capability must match. Usage: node casbin.mjs SUBJECTS GRANTS_EACH
import { newEnforcer, newModelFromString, StringAdapter } from 'casbin';

const [subjects, each] = process.argv.slice(2).map(Number);
const model = newModelFromString(`
[request_definition]
r = sub, obj, act
[policy_definition]
p = sub, obj, act
[policy_effect]
e = some(where (p.eft == allow))
[matchers]
m = r.sub == p.sub && r.obj == p.obj && r.act == p.act
`);
const lines = [];
for (let s = 0; s < subjects; s++) {
  for (let k = 0; k < each; k++) lines.push(`p, tool-${s}, h${k}.s${s}.example.com, network:https`);
}
const enforcer = await newEnforcer(model, new StringAdapter(lines.join('\n')));
const ask = (i) => {
  const s = i % subjects;
  return enforcer.enforce(`tool-${s}`, `h${Math.floor(i / subjects) % each}.s${s}.example.com`, 'network:https');
};
for (let i = 0; i < 20; i++) {
  if (!(await ask(i * 7))) throw new Error('a rule does not allow');
}
const rates = [];
for (let round = 0; round < 3; round++) {
  const began = process.hrtime.bigint();
  const n = 200;
  for (let i = 0; i < n; i++) await ask(i * 7 + round);
  rates.push((n * 1e9) / Number(process.hrtime.bigint() - began));
}
rates.sort((a, b) => a - b);
console.log(rates[1]);
