;; class: trap
(module
  (memory (export "memory") 1)
  (func (export "execute") (drop (i32.trunc_f64_s (f64.const 1e300)))))
