// class: ok cpu
const r = new FinalizationRegistry(() => { for (;;) {} });
for (let i = 0; i < 1000; i++) r.register({}, i);
return 1
