;; class: compile
;; flags: --enable-all
(module
  (memory (export "memory") 1)
  (tag $t)
  (func (export "execute") (try (do (throw $t)) (catch_all))))
