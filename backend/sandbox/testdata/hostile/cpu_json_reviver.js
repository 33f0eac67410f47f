// class: cpu
JSON.parse('[1,2,3]', function () { for (;;) {} })
