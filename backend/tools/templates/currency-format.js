// Writes amounts of money the way people in the United States read them.
export default function (params) {
  const format = new Intl.NumberFormat("en-US", {
    style: "currency",
    currency: params.currency,
    minimumFractionDigits: params.decimals,
    maximumFractionDigits: params.decimals,
  });
  const total = params.amounts.reduce((sum, a) => sum + a, 0);
  return { formatted: params.amounts.map((a) => format.format(a)), total: format.format(total) };
}
