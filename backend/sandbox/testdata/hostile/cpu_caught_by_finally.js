// class: cpu
const burn = () => { try { burn2() } finally { burn() } };
const burn2 = () => { try { for (;;) {} } catch { for (;;) {} } finally { for (;;) {} } };
burn()
