// Draws the page's charts from the JSON in #data, with Chart.js. Redraws when the system turns
// from light to dark. Says which tables are wider than the screen.
'use strict';
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const dashes = [[], [8, 4], [2, 3], [10, 3, 2, 3], [5, 5], [1, 4], [12, 4], [6, 2, 2, 2]];
  let charts = [];
  let cost = data.cost || 'steps';  // what the losses are drawn over
  const costs = {steps: 'steps', tokens: 'tokens', flops: 'training FLOPs', seconds: 'seconds'};

  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const color = (variant) => css('--c' + (variant % 8));
  const alpha = (hex, opacity) => hex + Math.round(opacity * 255).toString(16).padStart(2, '0');

  function short(value, digits = 4) {
    if (value === 0) return '0';
    const size = Math.abs(value);
    if (size < 1e-3 || size >= 1e6) return value.toExponential(1).replace('.0', '').replace('e+', 'e');
    return String(Number(value.toPrecision(digits)));
  }

  // All ticks of a linear axis have one power of ten, which the title names: 0.2, 0.4 … "(×10⁻³)".
  function powerOf(largest) {
    if (!(largest > 0) || (largest >= 1e-2 && largest < 1e5)) return 0;
    const power = Math.floor(Math.log10(largest) + 1e-9);
    return power < 0 ? power : 3 * Math.floor(power / 3);
  }
  const superscript = (power) => String(power).replace(/./g, (c) => '⁰¹²³⁴⁵⁶⁷⁸⁹'[c] || '⁻');

  // The fewest digits after the point that tell ticks at this distance apart.
  function digitsFor(distance) {
    let digits = 0;
    while (digits < 6 && Math.abs(distance * 10 ** digits - Math.round(distance * 10 ** digits)) > 1e-6) ++digits;
    return digits;
  }

  // The values of the x axis: the steps, or the cost up to each step.
  const switches = (spec) => spec.series.every((series) => series.costs);
  function across(spec, series) {
    return cost !== 'steps' && switches(spec) && series.costs[cost] || series.steps;
  }

  // Draws tinted bands with a name above them, and dashed horizontal lines.
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
        if (across && (at < area.top || at > area.bottom)) continue;
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
      const stroke = color(series.variant), xs = across(spec, series);
      // Draws a ring around the point with the model's training setting.
      const ring = (i, ringed, plain) => (series.trained || []).includes(series.steps[i]) ? ringed : plain;
      if (series.low) {
        const side = {borderWidth: 0, pointRadius: 0, band: true, group: series.variant,
                      backgroundColor: alpha(stroke, 0.18)};
        out.push({...side, data: xs.map((x, i) => ({x, y: series.low[i]})), fill: '+1'});
        out.push({...side, data: xs.map((x, i) => ({x, y: series.high[i]})), fill: false});
      }
      out.push({
        label: series.label, group: series.variant,
        data: xs.map((x, i) => ({x, y: series.values[i]})),
        borderColor: stroke, backgroundColor: stroke, borderWidth: 2,
        borderDash: dashes[series.variant % 8],
        clip: spec.points ? 8 : undefined,  // a point at the edge is drawn whole
        pointRadius: xs.map((_, i) => ring(i, 7, spec.points ? 3 : 0)),
        pointBackgroundColor: xs.map((_, i) => ring(i, css('--card'), stroke)),
        pointBorderWidth: xs.map((_, i) => ring(i, 3, 1)), pointHoverRadius: 5, tension: 0,
      });
    }
    return out;
  }

  // `extra.given`: the only values that get ticks. `values`: the values that are drawn along the axis.
  function axis(kind, title, extra, values) {
    const largest = extra.max ?? Math.max(...values.map(Math.abs));
    const power = kind === 'linear' && !extra.given ? powerOf(largest) : 0;
    if (power) title += ' (×10' + superscript(power) + ')';
    const positive = values.filter((value) => value > 0);
    const plain = Math.min(...positive) >= 1e-3 && Math.max(...positive) < 1e6;
    return {
      afterBuildTicks(scale) {
        if (extra.given) scale.ticks = extra.given.map((value) => ({value}));
      },
      type: kind, title: {display: true, text: title, color: css('--soft')},
      grid: {color: css('--line'), borderColor: css('--line')},
      border: {color: css('--line')},
      ticks: {
        color: css('--soft'), maxRotation: 0, autoSkipPadding: 18, includeBounds: false,
        callback(value, index, ticks) {
          if (extra.given) return short(value);
          if (kind !== 'logarithmic') {
            const distance = ticks.length > 1 ? ticks[1].value - ticks[0].value : value;
            return (value / 10 ** power).toFixed(digitsFor(distance / 10 ** power));
          }
          const digit = value / Math.pow(10, Math.floor(Math.log10(value) + 1e-9));
          const powers = Math.log10(this.max / this.min);
          const wanted = powers > 4 ? [1] : [1, 2, 5];
          if (!wanted.includes(Math.round(digit * 100) / 100)) return null;
          return plain ? String(Number(value.toPrecision(4))) : value.toExponential(0).replace('e+', 'e');
        },
      },
      ...extra,
    };
  }

  const values = (spec, key) => spec.series.flatMap((series) => series[key] || []).filter(Number.isFinite);

  function draw() {
    for (const chart of charts) chart.destroy();
    Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
    charts = data.charts.map(drawn);
  }

  function drawn(spec) {
    const switched = cost !== 'steps' && switches(spec);
    const xs = spec.series.flatMap((series) => across(spec, series));
    const xRange = switched ? {min: 0, max: Math.max(...xs)} :
        {min: spec.x_min ?? undefined, max: spec.x_max ?? undefined, given: spec.x_ticks};
    return new Chart(document.getElementById(spec.id), {
      type: 'line',
      data: {datasets: datasets(spec)},
      plugins: [marks],
      options: {
        spec, animation: false, responsive: true, maintainAspectRatio: false, parsing: false,
        interaction: {mode: 'nearest', axis: 'x', intersect: false},
        scales: {
          x: axis(spec.x_log ? 'logarithmic' : 'linear', switched ? costs[cost] : spec.x_title, xRange, xs),
          y: axis(spec.y_log ? 'logarithmic' : 'linear', spec.y_title,
                  {min: spec.y_min ?? undefined, max: spec.y_max ?? undefined}, values(spec, 'values')),
        },
        layout: {padding: {top: spec.bands ? 20 : 4}},
        plugins: {
          legend: {
            display: spec.series.length > 1,
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
                  (switched ? costs[cost] + ' ' : spec.x_name || 'step ') + short(items[0].parsed.x) : '',
              label: (item) => item.dataset.label + ': ' + short(item.parsed.y),
            },
          },
        },
      },
    });
  }

  // Makes the buttons that choose the x axis of the losses.
  function offerCosts() {
    const place = document.getElementById('costs');
    const known = data.charts.filter(switches).map((spec) => spec.series.map((series) => series.costs)).flat();
    const offered = Object.keys(costs).filter((key) => key === 'steps' || known.every((one) => one[key]));
    if (!place || !known.length || offered.length < 2) return;
    if (!offered.includes(cost)) cost = 'steps';
    place.append('Over ');
    for (const key of offered) {
      const button = document.createElement('button');
      button.type = 'button';
      button.textContent = costs[key];
      button.setAttribute('aria-pressed', String(key === cost));
      button.onclick = () => {
        cost = key;
        for (const other of place.querySelectorAll('button'))
          other.setAttribute('aria-pressed', String(other === button));
        draw();
      };
      place.append(button);
    }
  }

  // Marks elements that are wider than their place, and lets keys scroll them.
  function markWide() {
    for (const element of document.querySelectorAll('.scroll')) {
      const hidden = element.scrollWidth > element.clientWidth + 1;
      element.classList.toggle('wide', hidden);
      if (hidden) element.tabIndex = 0;
      else element.removeAttribute('tabindex');
    }
  }

  markWide();
  addEventListener('resize', markWide);
  for (const details of document.querySelectorAll('details')) details.addEventListener('toggle', markWide);
  offerCosts();
  draw();
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
})();
