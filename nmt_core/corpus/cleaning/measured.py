"""Languages in which identification may decide, made by benchmarks/languages_calibrate.py. Do not edit."""

MEASURED = """
ace 4.0/4.5 Latin id ms
af 5.0/4.5 Latin
am 3.0/4.5 Ethiopic
an 5.5/4.5 Latin
ar 3.0/4.5 Arabic
as 3.0/4.5 Bengali
ast 5.5/4.5 Latin es
az 5.0/4.5 Latin !Cyrillic !Arabic
bcl 4.0/4.5 Latin
be 3.0/4.5 Cyrillic !Latin
bg 3.0/4.5 Cyrillic
bn 3.0/4.5 Bengali
bo 3.0/4.5 Tibetan
br 3.0/4.5 Latin
brx 3.0/4.5 Devanagari hi
bs 3.0/4.5 Latin !Cyrillic
ca 3.5/4.5 Latin
ceb 3.0/4.5 Latin
ckb 3.5/4.5 Arabic
cnr 4.0/4.5 Latin !Cyrillic
co 4.5/4.5 Latin it
crh 3.0/4.5 Latin tr !Cyrillic
cs 3.0/4.5 Latin
cy 3.5/4.5 Latin
da 4.0/4.5 Latin
de 3.0/4.5 Latin
doi 3.0/4.5 Devanagari hi
dv 4.0/4.5 Thaana
dz 3.0/4.5 Tibetan
el 3.0/4.5 Greek
en 3.0/4.5 Latin
eo 3.5/4.5 Latin
es 3.0/4.5 Latin
et 3.5/4.5 Latin
eu 3.5/4.5 Latin
fa 3.0/4.5 Arabic
fi 3.0/4.5 Latin
fil 5.5/4.5 Latin
fo 5.0/4.5 Latin is nb nn no
fr 3.0/4.5 Latin
frp 5.5/4.5 Latin ca fr
fur 5.5/4.5 Latin fr it
fuv 4.0/4.5 Latin
fy 4.5/4.5 Latin
ga 3.5/4.5 Latin
gd 3.0/4.5 Latin
gl 4.5/4.5 Latin
gsw 5.5/4.5 Latin
gu 3.0/4.5 Gujarati
gug 4.0/4.5 Latin
ha 3.0/4.5 Latin
he 3.0/4.5 Hebrew
hi 3.0/4.5 Devanagari
hne 3.0/4.5 Devanagari hi
hr 3.0/4.5 Latin
hsb 5.5/4.5 Latin cs pl sl
ht 4.0/4.5 Latin
hu 3.0/4.5 Latin
hy 3.0/4.5 Armenian
ia 5.5/5.5 Latin es it
id 3.5/4.5 Latin
ie 5.5/5.0 Latin es fr it
ig 4.5/4.5 Latin
ilo 5.5/4.5 Latin
is 4.0/4.5 Latin
it 3.0/4.5 Latin
ja 3.0/4.5 Han+Hiragana+Katakana
jv 5.5/4.5 Javanese+Latin
ka 3.0/4.5 Georgian
kab 3.0/4.5 Latin
kk 3.0/4.5 Cyrillic !Latin !Arabic
km 3.0/4.5 Khmer
kn 3.0/4.5 Kannada
ko 3.0/4.5 Hangul
kok 3.0/5.5 Devanagari mr !Latin
ks 3.0/4.5 Devanagari hi !Arabic
ku 5.5/4.5 Arabic+Latin ar !Cyrillic
ky 5.5/4.5 Cyrillic
la 4.5/4.5 Latin
lb 5.5/5.0 Latin
lg 3.0/4.5 Latin
li 5.5/4.5 Latin nl
lij 4.0/4.5 Latin
ln 3.0/4.5 Latin
lo 3.0/4.5 Lao
lt 3.5/4.5 Latin
lv 3.5/4.5 Latin
mai 3.0/4.5 Devanagari hi
mg 3.5/4.5 Latin
min 4.0/4.5 Latin id ms
mk 3.0/4.5 Cyrillic
ml 3.0/4.5 Malayalam
mn 3.0/4.5 Cyrillic !Mongolian
mni 5.5/4.5 Meetei_Mayek !Bengali
mr 3.5/4.5 Devanagari
ms 3.0/4.5 Latin !Arabic
mt 4.0/4.5 Latin
my 3.0/4.5 Myanmar
nap 5.5/4.5 Latin it
nb 3.5/4.5 Latin
nds 4.5/4.5 Latin de nl
ne 3.5/4.5 Devanagari
nl 4.0/4.5 Latin
nn 3.5/4.5 Latin
no 4.5/5.0 Latin
nso 3.0/4.5 Latin
oc 5.0/4.5 Latin
om 4.5/4.5 Latin
or 3.0/4.5 Oriya
pa 3.0/4.5 Gurmukhi !Arabic
pam 4.5/4.5 Latin fil tl
pl 3.0/4.5 Latin
pnb 4.0/4.5 Arabic ur
ps 3.0/4.5 Arabic
pt 4.0/4.5 Latin
qu 4.0/4.5 Latin
rm 5.5/4.5 Latin it
ro 3.0/4.5 Latin
ru 3.0/4.5 Cyrillic
rue 4.0/4.5 Cyrillic ru uk
rw 5.5/4.5 Latin
sa 3.0/4.5 Devanagari
sah 4.0/4.5 Cyrillic
sat 5.0/4.5 Ol_Chiki !Devanagari !Bengali
sc 5.5/4.5 Latin ca it pt
sco 4.0/4.5 Latin af en
sd 3.0/4.5 Arabic+Devanagari ar hi
se 3.0/4.5 Latin
si 3.0/4.5 Sinhala
sk 3.5/4.5 Latin
sl 5.0/4.5 Latin
sn 4.0/4.5 Latin
so 5.5/6.0 Latin
sq 4.5/4.5 Latin
sr 3.5/4.5 Cyrillic+Latin
st 4.0/4.5 Latin
su 5.5/4.5 Latin id ms
sv 4.0/4.5 Latin
sw 4.0/4.5 Latin
ta 3.0/4.5 Tamil
te 3.0/4.5 Telugu
tg 4.0/4.5 Cyrillic !Arabic
th 3.0/4.5 Thai
tk 5.0/4.5 Latin !Cyrillic
tl 3.0/4.5 Latin
tr 3.0/4.5 Latin
tt 5.5/4.5 Latin tr !Cyrillic
tyv 4.0/4.5 Cyrillic ky
ug 3.0/4.5 Arabic !Cyrillic !Latin
uk 3.0/4.5 Cyrillic
ur 3.0/4.5 Arabic
uz 4.0/4.5 Cyrillic+Latin
vec 4.5/4.5 Latin
vep 4.0/4.5 Latin et fi
vi 3.0/4.5 Latin
wa 4.0/4.5 Latin
war 4.0/4.5 Latin fil tl
wuu 5.5/4.5 Han+Hiragana+Katakana !Bopomofo
xh 5.5/4.5 Latin
yi 3.0/4.5 Hebrew he
yo 3.0/4.5 Latin
yue 4.0/4.5 Han+Hiragana+Katakana zh !Bopomofo
zh 3.0/4.5 Han+Hiragana+Katakana !Bopomofo
zu 3.0/4.5 Latin
"""
"""One language a line: ISO 639 code, margins, scripts, languages that are accepted in its place, !scripts.

The first margin is for long sentences, the second one for short ones. The last are scripts in which the
language is written too, but too much of its sound text is lost.

A margin is the logarithm of how much more probable another language must be. Languages that are not
listed were not measured, or too much of their sound text is taken for other languages.
"""
