// class: ok thrown
// output: 13
// within: 6s
const out = []; for (const s of ['file:///etc/passwd', 'https://[::1%25lo]/', 'https://0x7f.1/', 'https://a@b@c/', 'https:\\\\x\\y', 'https://x:99999/', 'https://\0/', 'https://%00/', '//x', 'https://' + 'a.'.repeat(1e4), 'https://xn--/', 'https://xn--a-ecp.ru/', 'https://' + '%41'.repeat(1e4)]) try { new URL(s, 'https://base'); out.push(1) } catch { out.push(0) } return out.length
