// Draws the page's charts from the JSON in #data, with Chart.js. Redraws when the system turns
// from light to dark.
'use strict';
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const dashes = [[], [8, 4], [2, 3], [10, 3, 2, 3], [5, 5], [1, 4], [12, 4], [6, 2, 2, 2]];
  let charts = [];

  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const color = (variant) => css('--c' + (variant % 8));
  const alpha = (hex, opacity) => hex + Math.round(opacity * 255).toString(16).padStart(2, '0');

  function short(value, digits = 4) {
    if (value === 0) return '0';
    const size = Math.abs(value);
    if (size < 1e-3 || size >= 1e6) return value.toExponential(1).replace('.0', '').replace('e+', 'e');
    return String(Number(value.toPrecision(digits)));
  }

  // Tinted bands with a name above, and dashed lines across.
  const marks = {
    id: 'marks',
    beforeDatasetsDraw(chart) {
      const spec = chart.config.options.spec;
      const {ctx, chartArea: area, scales: {x, y}} = chart;
      ctx.save();
      ctx.font = '12px ' + Chart.defaults.font.family;
      for (const [i, band] of (spec.bands || []).entries()) {
        const left = band.from === null ? area.left : Math.max(area.left, x.getPixelForValue(band.from));
        const right = band.to === null ? area.right : Math.min(area.right, x.getPixelForValue(band.to));
        if (right <= left) continue;
        if (i % 2 === 1) {
          ctx.fillStyle = alpha(css('--soft'), 0.12);
          ctx.fillRect(left, area.top, right - left, area.bottom - area.top);
        }
        ctx.fillStyle = css('--soft');
        ctx.textAlign = 'center';
        const room = right - left - 4;
        const fits = [band.label, band.short].find((text) => ctx.measureText(text).width < room);
        if (fits) ctx.fillText(fits, (left + right) / 2, area.top - 7);
      }
      for (const line of spec.lines || []) {
        const across = line.y !== undefined;
        const at = across ? y.getPixelForValue(line.y) : x.getPixelForValue(line.x);
        ctx.strokeStyle = line.variant === undefined ? css('--soft') : color(line.variant);
        ctx.setLineDash([4, 4]);
        ctx.beginPath();
        ctx.moveTo(across ? area.left : at, across ? at : area.top);
        ctx.lineTo(across ? area.right : at, across ? at : area.bottom);
        ctx.stroke();
        if (!line.label) continue;
        ctx.fillStyle = css('--soft');
        ctx.textAlign = 'left';
        ctx.fillText(line.label, area.left + 6, at - 5);
      }
      ctx.restore();
    },
  };

  function datasets(spec) {
    const out = [];
    for (const series of spec.series) {
      const stroke = color(series.variant);
      if (series.low) {
        const side = {borderWidth: 0, pointRadius: 0, band: true, group: series.variant,
                      backgroundColor: alpha(stroke, 0.18)};
        out.push({...side, data: series.steps.map((x, i) => ({x, y: series.low[i]})), fill: '+1'});
        out.push({...side, data: series.steps.map((x, i) => ({x, y: series.high[i]})), fill: false});
      }
      out.push({
        label: series.label, group: series.variant,
        data: series.steps.map((x, i) => ({x, y: series.values[i]})),
        borderColor: stroke, backgroundColor: stroke, borderWidth: 2,
        borderDash: dashes[series.variant % 8],
        pointRadius: spec.points ? 3 : 0, pointHoverRadius: 4, tension: 0,
      });
    }
    return out;
  }

  // `extra.given`: ticks at these values and no others.
  function axis(kind, title, extra) {
    return {
      afterBuildTicks(scale) {
        if (extra.given) scale.ticks = extra.given.map((value) => ({value}));
      },
      type: kind, title: {display: true, text: title, color: css('--soft')},
      grid: {color: css('--line'), borderColor: css('--line')},
      border: {color: css('--line')},
      ticks: {
        color: css('--soft'), maxRotation: 0, autoSkipPadding: 18, includeBounds: false,
        callback(value) {
          if (extra.given) return short(value);
          if (kind !== 'logarithmic') return short(value, 7);  // neighbours may differ late
          const digit = value / Math.pow(10, Math.floor(Math.log10(value) + 1e-9));
          const powers = Math.log10(this.max / this.min);
          const wanted = powers > 4 ? [1] : [1, 2, 5];
          return wanted.includes(Math.round(digit * 100) / 100) ? short(value) : null;
        },
      },
      ...extra,
    };
  }

  function draw() {
    for (const chart of charts) chart.destroy();
    Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
    charts = data.charts.map((spec) => new Chart(document.getElementById(spec.id), {
      type: 'line',
      data: {datasets: datasets(spec)},
      plugins: [marks],
      options: {
        spec, animation: false, responsive: true, maintainAspectRatio: false, parsing: false,
        interaction: {mode: 'nearest', axis: 'x', intersect: false},
        scales: {
          x: axis(spec.x_log ? 'logarithmic' : 'linear', spec.x_title,
                  {min: spec.x_min ?? undefined, max: spec.x_max ?? undefined,
                   given: spec.x_ticks}),
          y: axis(spec.y_log ? 'logarithmic' : 'linear', spec.y_title,
                  {min: spec.y_min ?? undefined, max: spec.y_max ?? undefined}),
        },
        layout: {padding: {top: spec.bands ? 20 : 4}},
        plugins: {
          legend: {
            position: 'bottom',
            labels: {color: css('--ink'), boxWidth: 26, boxHeight: 0, padding: 14,
                     filter: (item, all) => !all.datasets[item.datasetIndex].band},
            onClick(event, item, legend) {
              const chart = legend.chart, group = chart.data.datasets[item.datasetIndex].group;
              const visible = chart.isDatasetVisible(item.datasetIndex);
              chart.data.datasets.forEach((set, i) => {
                if (set.group === group) chart.setDatasetVisibility(i, !visible);
              });
              chart.update();
            },
          },
          tooltip: {
            filter: (item) => !item.dataset.band,
            callbacks: {
              title: (items) => items.length ?
                  (spec.x_name || 'step ') + short(items[0].parsed.x) : '',
              label: (item) => item.dataset.label + ': ' + short(item.parsed.y),
            },
          },
        },
      },
    }));
  }

  draw();
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
})();
