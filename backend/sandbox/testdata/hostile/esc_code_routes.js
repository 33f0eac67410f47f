// class: ok
// output: 0
const t = 'globalThis.hit = (globalThis.hit ?? 0) + 1';
const F = [() => {}, async () => {}, function* () {}, async function* () {}].map((f) => f.constructor);
const tries = [() => eval(t), () => (0, eval)(t), () => Reflect.apply(eval, null, [t]), () => [t].map(eval), () => globalThis['ev' + 'al'](t), () => new Proxy(eval, {})(t), () => eval.call(null, t), () => eval.bind(null, t)(),
  ...F.flatMap((f) => [() => f(t)(), () => new f(t)(), () => Reflect.construct(f, [t])(), () => Reflect.construct(f, ['a = ' + t, ''], Array)(), () => (class extends f { constructor() { super(t) } }, new (class extends f {})(t))(), () => f.call(null, t)().next()]),
  () => Function.prototype.constructor(t)(), () => Object.getPrototypeOf(function* () {}).constructor(t)().next(), () => setTimeout(t, 0), () => 'a'.replace(/a/, t), () => [1].sort(t), () => new (Object.getPrototypeOf(async function () {}).constructor)(t)(),
  () => new RegExp('(?{' + t + '})').test('x'), () => JSON.parse('1', t), () => structuredClone(F[0])(t)(), () => Object.getOwnPropertyDescriptor(Function.prototype, 'constructor').value(t)(), () => Intl.NumberFormat.constructor(t)(), () => helix.log.constructor(t)(), () => Error.prototype.constructor.constructor(t)()];
for (const f of tries) try { await f() } catch {}
await new Promise((r) => setTimeout(r, 5));
return globalThis.hit ?? 0
