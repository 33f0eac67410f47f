// Intl.NumberFormat with the rules of en-US for decimal, percent and currency.

const warned = new SetCtor();
const setHas = uncurry(Set.prototype.has);
const warnOnce = (what) => {
  if (setHas(warned, what)) return;
  setAdd(warned, what);
  writeLog("warn", what);
};

// Symbols that en-US writes; other currencies are written by their code.
const symbols = {
  __proto__: null, USD: "$", EUR: "€", GBP: "£", JPY: "¥", INR: "₹", CNY: "CN¥", KRW: "₩", CAD: "CA$", AUD: "A$", MXN: "MX$",
  NZD: "NZ$", BRL: "R$", HKD: "HK$", ILS: "₪", VND: "₫", TWD: "NT$", XAF: "FCFA", XOF: "F\u202fCFA", XPF: "CFPF", XCD: "EC$", PHP: "₱",
};
const narrow = {
  __proto__: null, CNY: "¥", CAD: "$", AUD: "$", MXN: "$", NZD: "$", HKD: "$", TWD: "$", XCD: "$", RUB: "₽", UAH: "₴", TRY: "₺", PLN: "zł",
  CZK: "Kč", SEK: "kr", NOK: "kr", DKK: "kr", NGN: "₦", KZT: "₸", THB: "฿", CRC: "₡", HUF: "Ft", ARS: "$", CLP: "$", COP: "$", SGD: "$", EGP: "E£",
};
// Digits after the point where they are not two.
const minor = {
  __proto__: null, BIF: 0, CLP: 0, DJF: 0, GNF: 0, ISK: 0, JPY: 0, KMF: 0, KRW: 0, PYG: 0, RWF: 0, UGX: 0, UYI: 0, VND: 0, VUV: 0, XAF: 0, XOF: 0, XPF: 0,
  BHD: 3, IQD: 3, JOD: 3, KWD: 3, LYD: 3, OMR: 3, TND: 3, CLF: 4, UYW: 4,
};

// decimalOf gives [negative, digits, exponent] with value = 0.digits × 10^exponent, from the
// shortest text of a number, as the engine writes it.
const decimalOf = (v) => {
  const m = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/.exec(StringCtor(v));
  const negative = m[1] === "-" || Object.is(v, -0);
  let digits = m[2] + (m[3] ?? "");
  let exponent = m[2].length + NumberCtor(m[4] ?? 0);
  const lead = /^0*/.exec(digits)[0].length;
  digits = digits.slice(lead);
  exponent -= lead;
  digits = digits.replace(/0+$/, "");
  return [negative, digits, digits === "" ? 0 : exponent];
};

// roundAt keeps n digits, halves away from zero.
const roundAt = ([negative, digits, exponent], n) => {
  if (n < 0) return [negative, "", 0];
  if (digits.length <= n) return [negative, digits, exponent];
  const up = digits[n] >= "5";
  let kept = digits.slice(0, n).split("");
  if (up) {
    let i = n - 1;
    while (i >= 0 && kept[i] === "9") kept[i--] = "0";
    if (i >= 0) kept[i] = StringCtor(+kept[i] + 1);
    else {
      kept.unshift("1");
      exponent++;
    }
  }
  kept = kept.join("").replace(/0+$/, "");
  return [negative, kept, kept === "" ? 0 : exponent];
};

const option = (o, name, min, max, fallback) => {
  const v = o[name];
  if (v === undefined) return fallback;
  const n = NumberCtor(v);
  if (!(n >= min && n <= max)) throw new RangeErrorCtor(`${name} value is out of range.`);
  return Math.floor(n);
};
const choice = (o, name, allowed, fallback) => {
  const v = o[name];
  if (v === undefined) return fallback;
  const s = StringCtor(v);
  if (!allowed.includes(s)) throw new RangeErrorCtor(`Value ${s} out of range for Intl.NumberFormat options property ${name}`);
  return s;
};

class NumberFormat {
  #o;
  #bound;
  constructor(locales, options) {
    const o = options ?? {};
    const asked = locales === undefined ? "en-US" : isArray(locales) ? StringCtor(locales[0] ?? "en-US") : StringCtor(locales);
    if (asked !== "en-US" && asked !== "en") warnOnce(`Intl.NumberFormat knows en-US only; ${asked} is formatted like it.`);
    const style = choice(o, "style", ["decimal", "percent", "currency", "unit"], "decimal");
    if (style === "unit") throw new RangeErrorCtor("Intl.NumberFormat offers decimal, percent and currency only");
    for (const name of ["notation", "compactDisplay", "roundingMode", "roundingIncrement", "roundingPriority", "trailingZeroDisplay"]) {
      if (o[name] !== undefined && !(name === "notation" && o[name] === "standard")) warnOnce(`Intl.NumberFormat does not know the option ${name}.`);
    }
    let currency;
    if (style === "currency") {
      if (o.currency === undefined) throw new TypeErrorCtor("Currency code is required with currency style.");
      currency = toUpperCase(StringCtor(o.currency));
      if (!/^[A-Z]{3}$/.test(currency)) throw new RangeErrorCtor(`Invalid currency code : ${o.currency}`);
    }
    const fraction = style === "currency" ? (minor[currency] ?? 2) : 0;
    const most = style === "currency" ? fraction : style === "percent" ? 0 : 3;
    const significant = o.minimumSignificantDigits !== undefined || o.maximumSignificantDigits !== undefined;
    const r = {
      locale: "en-US", numberingSystem: "latn", style, currency,
      currencyDisplay: style === "currency" ? choice(o, "currencyDisplay", ["symbol", "narrowSymbol", "code", "name"], "symbol") : undefined,
      currencySign: style === "currency" ? choice(o, "currencySign", ["standard", "accounting"], "standard") : undefined,
      minimumIntegerDigits: option(o, "minimumIntegerDigits", 1, 21, 1),
    };
    if (significant) {
      r.minimumSignificantDigits = option(o, "minimumSignificantDigits", 1, 21, 1);
      r.maximumSignificantDigits = option(o, "maximumSignificantDigits", r.minimumSignificantDigits, 21, 21);
    } else {
      let low = option(o, "minimumFractionDigits", 0, 100, undefined);
      let high = option(o, "maximumFractionDigits", 0, 100, undefined);
      if (low === undefined) low = high === undefined ? fraction : Math.min(fraction, high);
      if (high === undefined) high = Math.max(most, low);
      if (low > high) throw new RangeErrorCtor("maximumFractionDigits value is out of range.");
      r.minimumFractionDigits = low;
      r.maximumFractionDigits = high;
    }
    const g = o.useGrouping;
    r.useGrouping = g === undefined || g === "" ? "auto" : g === true || g === "always" || g === "true" ? "always" : g === false || g === "false" ? false : choice(o, "useGrouping", ["min2", "auto"], "auto");
    r.signDisplay = choice(o, "signDisplay", ["auto", "never", "always", "exceptZero", "negative"], "auto");
    this.#o = r;
  }
  resolvedOptions() {
    const out = {};
    for (const k of objectKeys(this.#o)) if (this.#o[k] !== undefined) out[k] = this.#o[k];
    return out;
  }
  get format() {
    return (this.#bound ??= (v) => this.#parts(v).map((p) => p.value).join(""));
  }
  formatToParts(v) {
    return this.#parts(v);
  }
  #parts(v) {
    const o = this.#o;
    const n = typeof v === "bigint" ? v : NumberCtor(v);
    const number = [];
    let negative, zero = false;
    if (typeof n === "number" && !(n - n === 0)) {
      negative = n < 0;
      number.push(n !== n ? { type: "nan", value: "NaN" } : { type: "infinity", value: "∞" });
    } else {
      let d = decimalOf(n);
      if (o.style === "percent" && d[1] !== "") d[2] += 2;
      d = o.maximumSignificantDigits !== undefined ? roundAt(d, o.maximumSignificantDigits) : roundAt(d, d[2] + o.maximumFractionDigits);
      negative = d[0];
      zero = d[1] === "";
      this.#digits(number, d);
    }
    const nan = n !== n;
    const sign = {
      auto: negative ? "-" : "", never: "", always: negative ? "-" : "+",
      exceptZero: zero || nan ? "" : negative ? "-" : "+", negative: negative && !zero ? "-" : "",
    }[o.signDisplay];
    return this.#decorate(number, nan && sign === "-" ? "" : sign);
  }
  #digits(out, [, digits, exponent]) {
    const o = this.#o;
    let whole = exponent > 0 ? digits.slice(0, exponent).padEnd(exponent, "0") : "0";
    let part = exponent >= 0 ? digits.slice(exponent) : "0".repeat(-exponent) + digits;
    let least = o.minimumFractionDigits ?? 0;
    if (o.minimumSignificantDigits !== undefined) {
      const have = digits === "" ? 1 : digits.length;
      const used = exponent > have ? exponent : have;
      if (o.minimumSignificantDigits > used) least = part.length + o.minimumSignificantDigits - used;
    }
    part = part.padEnd(least, "0");
    whole = whole.padStart(o.minimumIntegerDigits, "0");
    const group = o.useGrouping !== false && whole.length > (o.useGrouping === "min2" ? 4 : 3);
    if (group) {
      const first = whole.length % 3 || 3;
      push(out, { type: "integer", value: whole.slice(0, first) });
      for (let i = first; i < whole.length; i += 3) push(out, { type: "group", value: "," }, { type: "integer", value: whole.slice(i, i + 3) });
    } else push(out, { type: "integer", value: whole });
    if (part !== "") push(out, { type: "decimal", value: "." }, { type: "fraction", value: part });
  }
  #decorate(number, sign) {
    const o = this.#o;
    const signs = sign === "" ? [] : [{ type: sign === "-" ? "minusSign" : "plusSign", value: sign }];
    if (o.style === "percent") return [...signs, ...number, { type: "percentSign", value: "%" }];
    if (o.style !== "currency") return [...signs, ...number];
    if (o.currencyDisplay === "name") return [...signs, ...number, { type: "literal", value: " " }, { type: "currency", value: o.currency }];
    const symbol = o.currencyDisplay === "code" ? o.currency : ((o.currencyDisplay === "narrowSymbol" ? narrow[o.currency] : undefined) ?? symbols[o.currency] ?? o.currency);
    const money = [{ type: "currency", value: symbol }];
    if (/[A-Za-z]$/.test(symbol) && number[0].type === "integer") push(money, { type: "literal", value: "\u00a0" });
    if (sign === "-" && o.currencySign === "accounting") return [{ type: "literal", value: "(" }, ...money, ...number, { type: "literal", value: ")" }];
    return [...signs, ...money, ...number];
  }
  static supportedLocalesOf(locales) {
    return (isArray(locales) ? locales : locales === undefined ? [] : [locales]).filter((l) => l === "en-US" || l === "en");
  }
}

define("Intl", freeze({
  NumberFormat: function (locales, options) {
    return new NumberFormat(locales, options);
  },
}));
defineProperty(globalThis.Intl.NumberFormat, "supportedLocalesOf", { value: NumberFormat.supportedLocalesOf });
defineProperty(Number.prototype, "toLocaleString", {
  value: function toLocaleString(locales, options) {
    return new NumberFormat(locales, options).format(NumberCtor(this));
  },
  writable: true, enumerable: false, configurable: true,
});
