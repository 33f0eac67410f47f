/** What the style layer rests on: sizes, colors and layers come from `styles/tokens.css`. */

/** Widths at which layouts change; see `styles/tokens.css`. */
const breakpoints = ["560px", "860px", "900px", "939px"];

/** @type {import("stylelint").Config} */
export default {
  ignoreFiles: ["dist/**"],
  overrides: [
    { files: ["**/*.svelte"], customSyntax: "postcss-html" },
    // Primitives have sizes of their own, which nothing else shares; tokens are where values stand.
    { files: ["src/lib/ui/**"], rules: { "unit-disallowed-list": null } },
    { files: ["src/styles/tokens.css"], rules: { "unit-disallowed-list": null, "color-no-hex": null, "function-disallowed-list": null } },
  ],
  rules: {
    "unit-disallowed-list": [["px"], { ignoreMediaFeatureNames: { px: ["/width/"] }, message: "Use a token of styles/tokens.css, or em where the size follows the text." }],
    "media-feature-name-value-allowed-list": { "/width/": breakpoints },
    "declaration-property-value-allowed-list": [{ "z-index": ["/^var\\(--z-[a-z-]+\\)$/"] }, { message: "Use a --z-… token of styles/tokens.css." }],
    "color-no-hex": [true, { message: "Use a color of styles/tokens.css." }],
    "color-named": ["never", { message: "Use a color of styles/tokens.css.", ignoreProperties: ["color-scheme"] }],
    "function-disallowed-list": ["rgb", "rgba", "hsl", "hsla"],
    "block-no-empty": true,
    "declaration-block-no-duplicate-properties": true,
    "declaration-block-no-shorthand-property-overrides": true,
    "no-duplicate-selectors": true,
    "property-no-unknown": true,
    "unit-no-unknown": true,
    "no-invalid-double-slash-comments": true,
  },
};
