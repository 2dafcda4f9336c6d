CRANFIELD="cran.all.1400 cran.qry --qrels cranqrel"
lmzoo retrieve $CRANFIELD --mu 200
lmzoo retrieve $CRANFIELD --mu 0 --lambda 0.6
lmzoo retrieve $CRANFIELD --mu 50 100 150 200 300 500 1000
lmzoo retrieve $CRANFIELD --mu 0 --lambda 0.3 0.4 0.5 0.6 0.7 0.8 0.9
lmzoo retrieve $CRANFIELD --mu 50 100 200 300 500 --lambda 0.1 0.2 0.3 0.5 0.7
lmzoo retrieve $CRANFIELD --mu 100 200 300 500 --order 2 --nu 10 30 100 300 1000
lmzoo retrieve $CRANFIELD --mu 100 200 300 500 --feedback 5 10 20 --terms 20 50 100 --weight 0.2 0.3 0.4 0.5
