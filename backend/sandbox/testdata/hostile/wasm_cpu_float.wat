;; class: cpu
(module
  (memory (export "memory") 1)
  (func (export "execute") (local f64) (loop $l (local.set 0 (f64.sqrt (f64.div (f64.const 5e-324) (f64.add (local.get 0) (f64.const nan))))) (local.set 0 (f64.nearest (local.get 0))) (br $l))))
