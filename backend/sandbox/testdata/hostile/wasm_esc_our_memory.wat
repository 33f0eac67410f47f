;; class: compile missing_export
;; flags: --no-check
(module
  (func (export "execute") (drop (i32.load (i32.const 0)))))
