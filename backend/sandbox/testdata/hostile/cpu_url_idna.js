// class: cpu memory thrown
const s = 'https://' + 'ü'.repeat(2e5) + '.de'; for (;;) try { new URL(s) } catch {}
