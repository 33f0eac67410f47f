// class: cpu memory thrown
JSON.parse('[1]', function (k, v) { if (Array.isArray(this)) this.push(1); return v && typeof v === 'object' ? v : [1] }); for (;;) {}
