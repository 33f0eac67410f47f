// class: cpu
const r = new FinalizationRegistry(() => { for (;;) {} });
for (;;) r.register({}, 1)
